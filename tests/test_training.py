"""Runs that are stopped and go on: equal, bit for bit, to runs that are not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stages import records, sft, training
from stages.files import Files
from stages.records import EXAMPLES, METRICS, read_table, table, write_table
from stages.store import StateError
from tests.small_runs import COMMON, STEPS, VALUES, files_of, run
from tests.stage_runs import ONE_THREAD, Stop, assert_same_results, options, stage_files
from tests.waiting import wait_for


def stopping_at(kind: str, limit: int):
    """The stage's step function, which dies before step `limit` is taken."""

    def step(held):
        if held.step == limit:
            raise Stop
        return STEPS[kind](held)

    return step


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("checkpoint_every", [1, 3])
def test_k_and_k_steps_are_2k_steps(warm, tmp_path, kind, checkpoint_every):
    straight = files_of(warm, tmp_path / "straight", kind, checkpoint_every=checkpoint_every)
    run(straight, kind)
    broken = files_of(warm, tmp_path / "broken", kind, checkpoint_every=checkpoint_every)
    for limit in (1, 2, 3):
        with pytest.raises(Stop):
            run(broken, kind, stopping_at(kind, limit))
        assert not broken.metrics.exists()
    run(broken, kind)
    assert_same_results(straight, broken)
    left_over = sorted(path.name for path in broken.state.iterdir())
    assert left_over == ["lock"]


def test_validation_on_what_is_trained_on_is_told(warm, tmp_path, capsys):
    values = COMMON | {"num_validation_examples": "full"}
    mixed = read_table(warm / "train.parquet", EXAMPLES).to_pylist()[:2]
    mixed += read_table(warm / "validation.parquet", EXAMPLES).to_pylist()
    write_table(tmp_path / "mixed.parquet", table(mixed, EXAMPLES))
    for name, told in ((warm / "validation.parquet", False), (tmp_path / "mixed.parquet", True)):
        with training.opened("grpo", stage_files(warm, tmp_path, "grpo", values, data=("train.parquet", name))):
            said = capsys.readouterr().err
        assert ("warning: test/grpo: 2 of 8 validation examples are trained on as well" in said) == told


def test_state_of_another_spec_or_other_code_is_not_resumed(warm, tmp_path):
    files = files_of(warm, tmp_path, "sft")
    with pytest.raises(Stop):
        run(files, "sft", stopping_at("sft", 3))
    files_of(warm, tmp_path, "sft", learning_rate=5e-4)
    taken = []

    def counting(held):
        taken.append(held.step)
        return sft.sft_step(held)

    run(files, "sft", counting)
    assert taken == [0, 1, 2, 3]
    spec = json.loads(files.spec.read_text())
    with pytest.raises(Stop):
        run(files, "sft", stopping_at("sft", 3))
    files.spec.write_text(json.dumps(spec | {"code": "stages@1"}))
    taken.clear()
    run(files, "sft", counting)
    assert taken == [0, 1, 2, 3]


def test_a_second_process_on_the_same_run_is_refused(warm, tmp_path):
    files = files_of(warm, tmp_path, "sft")

    def intrude(held):
        run(files, "sft")
        return []

    with pytest.raises(StateError, match="another process is running this job"):
        run(files, "sft", intrude)


def test_divergence_ends_the_run_with_a_reason_and_keeps_what_there_is(warm, tmp_path):
    files = files_of(warm, tmp_path, "sft")

    def diverging(held):
        rows = sft.sft_step(held)
        if held.step == 1:
            rows[0]["gradient_norm"] = float("nan")
        return rows

    run(files, "sft", diverging)
    status = json.loads(files.status.read_text())
    assert status["status"] == "diverged"
    assert "gradient_norm is nan at step 2" in status["reason"]
    metrics = read_table(files.metrics, METRICS).to_pylist()
    assert [row["step"] for row in metrics if row["kind"] == "train"] == [1, 2]
    assert metrics[-1]["kind"] == "validation"


def arguments(files: Files, kind: str) -> list[str]:
    return [sys.executable, "-m", f"stages.{'sft' if kind == 'sft' else 'grpo'}", *options(files)]


@pytest.mark.parametrize(("kind", "sign"), [("sft", signal.SIGTERM), ("grpo", signal.SIGKILL)])
def test_a_killed_process_goes_on_where_it_was(warm, tmp_path, kind, sign):
    steps = {"n_sft_steps": 40} if kind == "sft" else {"n_grpo_steps": 25}
    straight = files_of(warm, tmp_path / "straight", kind, **steps)
    run(straight, kind)
    killed = files_of(warm, tmp_path / "killed", kind, **steps)
    process = subprocess.Popen(arguments(killed, kind), env=ONE_THREAD, stderr=subprocess.DEVNULL)
    wait_for(lambda: (killed.state / "step_00000003").exists() or later_checkpoint(killed.state, 3), process)
    process.send_signal(sign)
    assert process.wait() == (143 if sign == signal.SIGTERM else -sign)
    assert not killed.status.exists()
    again = subprocess.run(arguments(killed, kind), env=ONE_THREAD, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "going on from step" in again.stderr
    assert_same_results(straight, killed)


def later_checkpoint(state: Path, step: int) -> bool:
    return any(int(path.name[5:]) >= step for path in state.glob("step_*"))


@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_dataset_that_cannot_be_trained_on_is_named(warm, tmp_path, name):
    files = files_of(warm, tmp_path, "sft")
    empty = tmp_path / "empty.parquet"
    write_table(empty, table([], EXAMPLES))
    broken = replace(files, **{name: empty})
    with pytest.raises(records.DataError, match=r"empty\.parquet: no examples"):
        run(broken, "sft")


def test_an_example_that_has_no_room_in_the_policy_is_named(warm, tmp_path):
    rows = read_table(warm / "train.parquet", EXAMPLES).to_pylist()
    rows[5]["response"] = " 1" * 600 + " </answer>"
    write_table(tmp_path / "long.parquet", table(rows, EXAMPLES))
    files = replace(files_of(warm, tmp_path, "sft"), train=tmp_path / "long.parquet")
    says = rf"long\.parquet: {rows[5]['example_id']} has \d+ tokens of prompt and response, the policy 512 positions"
    with training.opened("sft", files, sft.total_steps) as held, pytest.raises(records.DataError, match=says):
        sft.refuse_too_long(held)


def test_a_wall_clock_budget_ends_a_run_as_finished_with_a_last_validation(warm, tmp_path):
    files = files_of(warm, tmp_path, "grpo", max_seconds=1e-3)
    run(files, "grpo")
    status = json.loads(files.status.read_text())
    assert (status["status"], status["steps"]) == ("finished", 1)
    metrics = read_table(files.metrics, METRICS).to_pylist()
    assert [row["kind"] for row in metrics] == ["validation", "train", "validation"]


def test_a_run_killed_after_its_budget_was_spent_takes_no_further_step(warm, tmp_path, monkeypatch):
    files = files_of(warm, tmp_path, "grpo", max_seconds=1e-3)

    def killed(held):
        raise Stop

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(training.Run, "finish", killed)
        run(files, "grpo")
    run(files, "grpo", killed)
    assert json.loads(files.status.read_text())["steps"] == 1
