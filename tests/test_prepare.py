"""The program that makes datasets, on real files, and what it says when it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from stages import prepare
from stages.records import EXAMPLES, INSTRUCTIONS, PREFERENCES, DataError, provenance_of, read_table
from stages.sources import DataSource
from stages.strict import ConfigError
from stages.tasks.arithmetic import split_of, traces

ROOT = Path(prepare.__file__).parents[1]


def make(folder, values, name="mine"):
    """Run the stage's function on a specification; the rows it wrote."""
    spec, out = folder / "spec.json", folder / "data" / f"{name}.parquet"
    spec.write_text(json.dumps({"stage": "prepare", "name": name, "code": "c0de", "values": values}))
    prepare.prepare(spec=spec, out=out)
    return read_table(out, EXAMPLES).to_pylist()


def command(folder, values):
    """Run the stage as the workflow does."""
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"stage": "prepare", "name": "mine", "code": "c0de", "values": values}))
    call = [sys.executable, "-P", "-m", "stages.prepare", "--spec", str(spec), "--out", str(folder / "out.parquet")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(call, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def test_generated_problems(tmp_path):
    rows = make(tmp_path, {"source": "arithmetic", "split": "validation", "size": 40, "seed": 2})
    assert len(rows) == 40
    assert {split_of(row["question"]) for row in rows} == {"validation"}
    assert rows[0]["example_id"] == "mine-000001"


def test_generated_traces(tmp_path):
    rows = make(tmp_path, {"source": "arithmetic_traces", "size": 10, "wrong_fraction": 0.5}, name="sft")
    assert rows == traces(10, 0.5, seed=0, name="sft")


def test_json_lines_with_fields_of_their_own(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"q": "1+1?", "a": 2, "r": " 2 </think> <answer> 2 </answer>"}\n')
    values = {"source": "jsonl", "path": str(tmp_path / "a.jsonl"), "question": "q", "answer": "a", "response": "r"}
    (row,) = make(tmp_path, values)
    assert row == {
        "example_id": "mine-000001",
        "question": "1+1?",
        "ground_truth": "2",
        "response": " 2 </think> <answer> 2 </answer>",
    }


def test_gsm8k(tmp_path):
    (tmp_path / "g.jsonl").write_text('{"question": "1+1?", "answer": "<<1+1=2>>2.\\n#### 2"}\n')
    (row,) = make(tmp_path, {"source": "gsm8k", "path": str(tmp_path / "g.jsonl")})
    assert (row["ground_truth"], row["response"]) == ("2", " 2. </think> <answer> 2 </answer>")


def test_the_file_says_what_it_was_made_from(tmp_path):
    values = {"source": "arithmetic", "split": "train", "size": 1}
    make(tmp_path, values)
    facts = provenance_of(tmp_path / "data" / "mine.parquet")
    assert facts["spec"]["values"] == values
    assert facts["code"] == "c0de"


def test_every_source_that_needs_no_grading_has_a_loader():
    kinds = get_args(get_args(DataSource)[0])
    assert {*prepare.LOADERS, "curated", "pass_rate"} == {
        get_args(kind.model_fields["source"].annotation)[0] for kind in kinds
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": "arithmetic", "split": "validation", "size": 10**6}, r"data\.mine\.size: 1000000 exceeds the \d+"),
        ({"source": "arithmetic_traces", "size": 10**6}, r"data\.mine\.size: 1000000 exceeds the \d+ questions"),
        ({"source": "curated", "dataset": "sft"}, r"data\.mine: source 'curated' is made by stages\.curate"),
        ({"source": "arithmetic", "split": "dev", "size": 5}, r"data\.mine\.arithmetic\.split: .*'train'"),
    ],
)
def test_values_that_cannot_work(tmp_path, values, message):
    with pytest.raises(ConfigError, match=message):
        make(tmp_path, values)
    assert not (tmp_path / "data").exists()


def test_an_unusable_file_leaves_no_output(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"question": "1+1?"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:1: field 'answer' is missing"):
        make(tmp_path, {"source": "jsonl", "path": str(tmp_path / "a.jsonl")})
    assert not (tmp_path / "data").exists()


def test_the_command_reports_one_readable_line(tmp_path):
    done = command(tmp_path, {"source": "jsonl", "path": "absent.jsonl"})
    assert done.returncode == 1
    assert done.stderr.startswith("error: absent.jsonl: no such file")
    assert "Traceback" not in done.stderr


def test_the_command_writes_a_dataset(tmp_path):
    done = command(tmp_path, {"source": "arithmetic", "split": "train", "size": 12})
    assert done.returncode == 0, done.stderr
    assert "mine: 12 examples" in done.stderr
    assert read_table(tmp_path / "out.parquet", EXAMPLES).num_rows == 12


def test_neither_torch_nor_transformers_is_imported():
    probe = "import sys, stages.prepare; print(sorted({'torch', 'transformers', 'sympy'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


def test_instructions_and_preferences_have_columns_of_their_own(tmp_path):
    for source, schema in (("arithmetic_instructions", INSTRUCTIONS), ("arithmetic_preferences", PREFERENCES)):
        values = {"source": source, "split": "train", "size": 3}
        (tmp_path / "spec.json").write_text(json.dumps({"stage": "prepare", "name": "mine", "values": values}))
        prepare.prepare(spec=tmp_path / "spec.json", out=tmp_path / "mine.parquet")
        assert read_table(tmp_path / "mine.parquet", schema).num_rows == 3
