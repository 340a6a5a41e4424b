"""Hub datasets: pinned, found by split or by name, read from Parquet; offline, one error that names the way out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from stages import prepare
from stages.records import DataError
from stages.sources import parse_source
from stages.strict import ConfigError
from stages.tasks import math_style
from stages.tasks.files import read
from stages.tasks.hub import local_files

ROOT = Path(prepare.__file__).parents[1]
REVISION = "0123456789abcdef0123456789abcdef01234567"


def source(**values):
    return parse_source({"source": "math", "hub": "own/maths", "revision": REVISION} | values, "data.mine")


def parquet(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder that stands in for the dataset; `hub.asked` lists what was asked of the download function."""

    stand_in = SimpleNamespace(folder=tmp_path / "snapshot", asked=[], error=None)

    def snapshot_download(repo_id, **keywords):
        if stand_in.error is not None:
            raise stand_in.error
        stand_in.asked.append((repo_id, keywords))
        return str(stand_in.folder)

    stand_in.folder.mkdir()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return stand_in


def test_a_local_file_asks_nobody(hub):
    assert local_files(parse_source({"source": "math", "path": "a.jsonl"}, "data.mine")) == [Path("a.jsonl")]
    assert hub.asked == []


def test_the_pinned_revision_and_just_the_files_of_the_split_are_asked_for(hub):
    for name in ("train-00000-of-00001", "test-00000-of-00001"):
        parquet(hub.folder / "main" / f"{name}.parquet", {"problem": "1+1?", "answer": name})
    (file,) = local_files(source(config="main", split="test"))
    assert file == hub.folder / "main" / "test-00000-of-00001.parquet"
    ((repo, keywords),) = hub.asked
    assert (repo, keywords["repo_type"], keywords["revision"]) == ("own/maths", "dataset", REVISION)
    assert "main/test-*.parquet" in keywords["allow_patterns"]
    assert not [pattern for pattern in keywords["allow_patterns"] if "test" not in pattern]


@pytest.mark.parametrize("name", ["data/train-00000-of-00001-abc.parquet", "train.jsonl", "data/train.jsonl.gz"])
def test_usual_places_of_a_split(hub, name):
    (hub.folder / name).parent.mkdir(exist_ok=True)
    (hub.folder / name).write_text("")
    assert local_files(source(split="train")) == [hub.folder / name]


def test_shards_are_one_dataset_in_order(hub):
    for shard in range(3):
        rows = [{"problem": f"{shard}{row}?", "answer": str(row)} for row in range(2)]
        parquet(hub.folder / "data" / f"train-0000{shard}-of-00003.parquet", *rows)
    rows = math_style.load(local_files(source(split="train")), "m")
    assert [row["question"] for row in rows] == ["00?", "01?", "10?", "11?", "20?", "21?"]
    assert [row["example_id"] for row in rows] == [f"m-{number:06d}" for number in range(1, 7)]
    (hub.folder / "data" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DataError, match="own/maths at 0123456789ab: 2 of 3 files of the split are at hand; run again"):
        local_files(source(split="train"))


def test_a_file_by_its_name(hub):
    parquet(hub.folder / "odd" / "train-00000-of-00009.parquet", {"problem": "a", "answer": "b"})
    name = "odd/train-00000-of-00009.parquet"
    assert local_files(source(file=name)) == [hub.folder / name]
    assert hub.asked[0][1]["allow_patterns"] == [name]


def test_a_split_that_is_not_there(hub):
    with pytest.raises(DataError, match=r"own/maths at 0123456789ab has no file data/trian-\*\.parquet or .*`file`"):
        local_files(source(split="trian"))


def test_offline_the_error_names_the_file_that_would_do(hub):
    hub.error = LocalEntryNotFoundError("no network")
    with pytest.raises(DataError) as caught:
        local_files(source(config="main", split="train"))
    assert str(caught.value) == (
        "own/maths at 0123456789ab is not in the local cache and the Hub cannot be reached; run once with network, or "
        "replace `hub` and what belongs to it by `path:` with a local copy of main/train-*.parquet"
    )


def test_what_the_hub_refuses_is_told_in_a_line(hub):
    hub.error = HFValidationError("Repo id must be in the form 'name'\nand more")
    with pytest.raises(DataError, match=r"cannot be had from the Hub \(Repo id must be in the form 'name'\); check id"):
        local_files(source(file="a.jsonl"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"revision": None, "split": "train"}, "hub needs revision, the commit that pins the data: 40 hexadecimal"),
        ({"revision": "main", "split": "train"}, "(got 'main'; a branch or tag may move)"),
        ({"revision": REVISION[:12], "split": "train"}, "hub needs revision"),
        ({}, "hub needs exactly one of file (a name in the dataset) and split (such as train)"),
        ({"split": "train", "file": "a"}, "hub needs exactly one of file"),
        ({"config": "main", "file": "a"}, "config belongs to split"),
        ({"path": "a"}, "give exactly one of path (a local file) and hub (the id of a Hub dataset)"),
        ({"hub": None, "revision": None}, "give exactly one of path"),
        ({"hub": None, "path": "a"}, "revision can only be given together with hub"),
    ],
)
def test_values_that_pin_nothing(values, message):
    with pytest.raises(ConfigError) as caught:
        source(**values)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "countdown"}, "give size, the number of problems to generate, or path or hub"),
        (
            {"source": "countdown", "path": "a", "hub": "b"},
            "give path (a local file) or hub (the id of a Hub dataset), not",
        ),
        ({"source": "countdown", "path": "a", "seed": 1}, "seed and n_numbers shape generated problems"),
        ({"source": "countdown", "hub": "a"}, "hub needs revision"),
    ],
)
def test_countdown_needs_no_file(values, message):
    assert parse_source({"source": "countdown", "size": 4}, "data.c").path is None
    with pytest.raises(ConfigError) as caught:
        parse_source(values, "data.c")
    assert message in str(caught.value)


def test_the_program_without_network(tmp_path):
    """The real client, told that it is offline, with an empty cache."""
    spec = tmp_path / "spec.json"
    values = source(split="train").model_dump()
    spec.write_text(json.dumps({"stage": "prepare", "name": "mine", "code": "c0de", "values": values}))
    call = [sys.executable, "-P", "-m", "stages.prepare", "--spec", str(spec), "--out", str(tmp_path / "out.parquet")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(call, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: own/maths at 0123456789ab is not in the local cache and the Hub cannot be")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.parquet").exists()


# ---------------------------------------------------------------- Parquet


def test_parquet_rows_are_numbered(tmp_path):
    parquet(tmp_path / "a.parquet", {"x": 1, "y": ["a"]}, {"x": 2, "y": []})
    name = tmp_path / "a.parquet"
    assert list(read([name])) == [(f"{name}:1", {"x": 1, "y": ["a"]}), (f"{name}:2", {"x": 2, "y": []})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; paths are relative to"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "`git lfs pull`"),
        (b"PAR1 and so on", "not a readable Parquet file"),
        (b"", "not a readable Parquet file"),
    ],
)
def test_parquet_that_cannot_be_used_is_named(tmp_path, content, message):
    path = tmp_path / "a.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        math_style.load([path], "m")
    assert str(caught.value).startswith(str(path))


def test_a_parquet_row_that_cannot_be_used_is_named(tmp_path):
    parquet(tmp_path / "a.parquet", {"problem": "a", "answer": "1"}, {"problem": "b", "answer": None})
    with pytest.raises(DataError, match=r"a\.parquet:2: neither an answer nor a solution"):
        math_style.load([tmp_path / "a.parquet"], "m")
