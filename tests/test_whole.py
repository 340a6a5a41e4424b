"""What is finished is whole, and what is damaged is told: never other values, never a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stages import records, sums, training
from stages.parts import Parts
from stages.policy.checkpoint import load_training, save_training
from stages.policy.loading import load_policy
from stages.policy.optimizer import make_optimizer
from stages.records import EXAMPLES, ROLLOUTS, DataError, provenance_of, read_table, table
from stages.run import Run
from stages.store import State, new_directory, new_file
from tests.small_runs import STEPS, files_of, run
from tests.stage_runs import Stop, assert_same_results
from tests.tiny import qwen


def row(number: int) -> dict:
    return {"example_id": f"e-{number}", "question": "?", "ground_truth": str(number)}


def fill(folder: Path, items: int = 12, each: int = 2, stop: int | None = None) -> list[dict]:
    """Two rows for each item, in parts of three items; dies before item `stop`."""

    def rows_of(chunk):
        if stop in chunk:
            raise Stop
        return [row(item) for item in chunk for _ in range(each)]

    return Parts(folder, EXAMPLES).fill("filling", range(items), 3, rows_of, each).to_pylist()


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


HARM = {
    "the first deleted": lambda folder: (folder / "00000003.parquet").unlink(),
    "one in the middle deleted": lambda folder: (folder / "00000006.parquet").unlink(),
    "the last deleted": lambda folder: (folder / "00000009.parquet").unlink(),
    "one damaged": lambda folder: damage(folder / "00000006.parquet"),
    "one cut": lambda folder: os.truncate(folder / "00000006.parquet", 100),
    "a folder for one": lambda folder: ((folder / "00000006.parquet").unlink(), (folder / "00000006.parquet").mkdir()),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "no JSON": lambda folder: (folder / "manifest.json").write_text("{"),
    "another manifest": lambda folder: (folder / "manifest.json").write_text('{"00000003.parquet": 4}'),
    "a part of a killed process": lambda folder: shutil.copy(folder / "00000003.parquet", folder / "00000012.parquet"),
    "a file of a person's": lambda folder: (folder / "old.parquet").write_text("mine"),
}


@pytest.mark.parametrize("harm", HARM)
def test_parts_that_are_not_whole_are_made_anew(tmp_path, harm):
    straight = fill(tmp_path / "straight")
    with pytest.raises(Stop):
        fill(tmp_path / "parts", stop=9)
    HARM[harm](tmp_path / "parts")
    assert fill(tmp_path / "parts") == straight


def test_an_evaluation_of_fewer_rows_than_were_asked_for_does_not_finish(tmp_path):
    parts = Parts(tmp_path / "parts", EXAMPLES)
    with pytest.raises(DataError, match=r"5 rows where there should be 6; delete the state folder"):
        parts.fill("filling", range(3), 3, lambda chunk: [row(item) for item in range(5)], 2)


@pytest.fixture(scope="module")
def stopped(warm, tmp_path_factory):
    """A GRPO run that died after two of its four steps, with a checkpoint and a part of rollouts for each."""
    files = files_of(warm, tmp_path_factory.mktemp("stopped"), "grpo")

    def step(held):
        if held.step == 2:
            raise Stop
        return STEPS["grpo"](held)

    with pytest.raises(Stop):
        run(files, "grpo", step)
    return files


def copied(files, target: Path):
    """The same run in another folder; its state belongs to it all the same."""
    shutil.copytree(files.state, target / "state")
    moved = {name: target / getattr(files, name).name for name in ("metrics", "generations", "rollouts", "status")}
    return replace(files, state=target / "state", checkpoint=target / "model", **moved)


@pytest.mark.parametrize("harm", ["deleted", "damaged"])
@pytest.mark.parametrize("part", ["rollouts/00000001.parquet", "rollouts/00000002.parquet"])
def test_a_run_whose_rollouts_are_not_whole_is_refused_before_it_trains_and_its_advice_is_right(
    stopped, warm, tmp_path, part, harm
):
    files = copied(stopped, tmp_path)
    (files.state / part).unlink() if harm == "deleted" else damage(files.state / part)

    def never(held):
        raise AssertionError("it trained")

    with pytest.raises(DataError, match=rf"{part}: .*; delete the state folder .*state .* its 2 steps are then lost$"):
        run(files, "grpo", never)
    assert not files.status.exists()
    if (part, harm) == ("rollouts/00000001.parquet", "deleted"):  # once is enough
        shutil.rmtree(files.state)
        run(files, "grpo")
        straight = files_of(warm, tmp_path / "straight", "grpo")
        run(straight, "grpo")
        assert_same_results(straight, files)


def test_a_run_killed_between_its_rollouts_and_its_checkpoint_goes_on(stopped, warm, tmp_path, monkeypatch):
    files = copied(stopped, tmp_path)

    def killed(*_):
        raise Stop

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(State, "save", killed)
        run(files, "grpo")
    assert (files.state / "rollouts" / "00000003.parquet").exists()
    run(files, "grpo")
    straight = files_of(warm, tmp_path / "straight", "grpo")
    run(straight, "grpo")
    assert_same_results(straight, files)


@pytest.mark.parametrize("lost", ["generations", "rollouts"])
def test_a_run_that_lacks_rows_does_not_finish(stopped, tmp_path, monkeypatch, lost):
    files = copied(stopped, tmp_path)
    whole = Parts.all

    def all_but_one(parts, *expected):
        found = whole(parts, *expected)
        return found.slice(1) if parts.folder.name == lost else found

    monkeypatch.setattr(Parts, "all", all_but_one)
    with pytest.raises(DataError, match=r"rows of (the validation of step 0|rollout batch 1) are missing \(1 such\)"):
        run(files, "grpo")
    assert not files.status.exists()


def test_moments_that_are_not_the_optimizers_are_refused(tmp_path):
    model = qwen()
    optimizer = make_optimizer(model, (0.9, 0.99), 0.0)
    sum(weight.sum() for weight in model.parameters()).backward()
    optimizer.step()
    save_training(tmp_path, model, optimizer, {})
    load_training(tmp_path, model, optimizer)
    other = make_optimizer(model, (0.9, 0.99), 0.0, "rmsprop")
    with pytest.raises(DataError, match="moments that are not of weight"):
        load_training(tmp_path, model, other)
    from safetensors.torch import load_file, save_file

    moments = load_file(tmp_path / "optimizer.safetensors")
    for spoil in (lambda: moments.pop("1/exp_avg"), lambda: moments.update({"0/exp_avg": torch.zeros(3)})):
        spoil()
        save_file(moments, tmp_path / "optimizer.safetensors")
        with pytest.raises(DataError, match=r"optimizer\.safetensors: not as it was written"):
            load_training(tmp_path, model, optimizer)
        sums.seal(tmp_path)
        with pytest.raises(DataError, match="moments that are not of weight"):
            load_training(tmp_path, model, optimizer)


def flipped(file: Path, dice: random.Random) -> None:
    """One bit of it, chosen at random."""
    content = bytearray(file.read_bytes())
    place = dice.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)


def resumed(held: Run) -> dict:
    """All that a run goes on from."""
    held.resume()
    return {
        "step": held.step,
        "metrics": json.dumps(held.metrics),
        "counts": (held.updates, held.responses, held.total, held.ended),
        "weights": [weight.clone() for weight in held.model.state_dict().values()],
        "moments": [value.clone() for entry in held.optimizer.state.values() for value in entry.values()],
        "rows": [held.generations.all().to_pylist(), held.rollouts.all().to_pylist()],
    }


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def test_no_bit_of_a_state_folder_changes_a_value_unseen(stopped, tmp_path):
    """A flipped bit is harmless, is told in a line, or is of the key: then the run begins anew."""
    dice = random.Random(0)
    keep = tmp_path / "keep"
    shutil.copytree(stopped.state, keep)
    names = sorted(path.relative_to(keep) for path in keep.rglob("*") if path.is_file() and path.stat().st_size)
    files = copied(stopped, tmp_path)
    total = {"total": lambda settings, _: settings.n_grpo_steps}
    with training.opened("grpo", files, **total) as held:
        fresh = {name: weight.clone() for name, weight in held.model.state_dict().items()}
        wanted = resumed(held)
    assert wanted["step"] == 2
    told = 0
    with training.opened("grpo", files, **total) as held:
        for number in range(60):
            name = names[number % len(names)]
            shutil.rmtree(files.state)
            shutil.copytree(keep, files.state)
            flipped(files.state / name, dice)
            held.model.load_state_dict(fresh)
            held.optimizer.state.clear()
            with State(files.state, training.identity(held.plan, held.settings, files.model)) as state:
                held.state = state
                try:
                    found = resumed(held)
                except DataError:
                    told += 1
                    continue
                assert name.name == "key" or all(same(found[part], wanted[part]) for part in wanted), name
                assert name.name != "key" or not state.checkpoints()
    assert told > 40


def test_no_bit_of_an_output_changes_a_value_unseen(stopped, tmp_path):
    files = copied(stopped, tmp_path / "run")
    run(files, "grpo")
    weights = [*load_policy(files.checkpoint)[0].state_dict().values()]
    rows, facts = read_table(files.rollouts, ROLLOUTS).to_pylist(), provenance_of(files.rollouts)
    readers = {
        files.rollouts: lambda path: read_table(path, ROLLOUTS).to_pylist() == rows and provenance_of(path) == facts,
        files.checkpoint: lambda path: same([*load_policy(path)[0].state_dict().values()], weights),
    }
    dice = random.Random(1)
    told = 0
    for source, reads_the_same in readers.items():
        for _ in range(200 if source.is_file() else 30):
            target = tmp_path / source.name
            shutil.copy(source, target) if source.is_file() else shutil.copytree(source, target, dirs_exist_ok=True)
            flipped(target if target.is_file() else dice.choice(sorted(target.iterdir())), dice)
            try:
                assert reads_the_same(target)
            except DataError:
                told += 1
    assert told > 100


def test_files_get_the_mode_of_the_umask_whoever_wrote_them(tmp_path):
    """A library's own temporary files are its owner's alone, and keep that when they are renamed."""
    code = (
        "import os, sys; from pathlib import Path; from stages.store import new_directory, new_file\n"
        "os.umask(0o027)\n"
        "def private(path): os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))\n"
        "def renamed(path): private(f'{path}.tmp'); os.replace(f'{path}.tmp', path)\n"
        "with new_directory(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'below').mkdir(); private(folder / 'below' / 'a'); private(folder / 'b')\n"
        "with new_file(Path(sys.argv[2])) as file: renamed(file)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "folder", tmp_path / "file"], check=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"folder": 0o750, "below": 0o750, "a": 0o640, "b": 0o640, "file": 0o640}


def test_copies_that_a_killed_process_left_are_removed_and_those_of_others_stay(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from stages.store import new_directory, new_file\n"
        "with new_directory(Path(sys.argv[1]) / 'model') as folder, new_file(Path(sys.argv[1]) / 'file') as file:\n"
        "    (folder / 'weights').write_text('half'); file.write_text('half')\n"
        "    print(folder.name, file.name, flush=True); sys.stdin.read()\n"
    )

    def writer():
        process = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return process, set(process.stdout.readline().split())

    (dead, left), (living, growing) = writer(), writer()
    dead.kill()
    dead.wait()
    other = {".model.0123abcd.1", ".model.mine", f".model-2.{next(iter(left)).split('.', 2)[2]}"}
    for name in other:
        (tmp_path / name).mkdir()
    with new_directory(tmp_path / "model"), new_file(tmp_path / "file") as file:
        file.write_text("whole")
    there = {path.name for path in tmp_path.iterdir()}
    assert not there & left
    assert there == {"model", "file"} | other | growing
    living.communicate("")
    assert living.returncode == 0
    assert (tmp_path / "model" / "weights").read_text() == "half"


def test_a_policy_that_is_not_finite_is_refused_by_name(tmp_path):
    from stages.policy.loading import save_policy
    from tests.tiny import tokenizer

    model = qwen()
    for value in (float("nan"), float("inf")):
        with torch.no_grad():
            model.model.norm.weight[1] = value
        save_policy(model, tokenizer(), tmp_path / "mine")
        with pytest.raises(DataError, match=r"mine: 1 of its weights are not finite, such as model\.norm\.weight;"):
            load_policy(tmp_path / "mine")


def test_state_with_odd_names_in_it_is_read(tmp_path):
    with State(tmp_path / "state", {}) as state, state.save(4) as folder:
        (folder / "weights").write_text("4")
    (tmp_path / "state" / "step_abc").mkdir()
    (tmp_path / "state" / "step_00000004 copy").mkdir()
    (tmp_path / "state" / "step_00000009").write_text("no folder")
    with State(tmp_path / "state", {}) as state:
        assert [step for step, _ in state.checkpoints()] == [4]
    (tmp_path / "state" / "key").write_bytes(b"\xff\xfe")
    with State(tmp_path / "state", {}) as state:
        assert not state.checkpoints()


def test_provenance_says_the_number_of_rows_too(tmp_path):
    path = tmp_path / "x.parquet"
    records.write_table(path, table([row(1)], EXAMPLES), {"seconds": 1.5})
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"seconds": 1.5', b'"seconds": 1.7'))
    with pytest.raises(DataError, match=r"x\.parquet: not a readable .*not as it was written"):
        provenance_of(path)
