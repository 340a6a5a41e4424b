"""Processes under torchrun train as one does: same losses, same weights, and any goes on where another was ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from stages import grpo, sft, training
from stages.files import Files
from stages.records import METRICS, ROLLOUTS, TIMINGS, read_table
from stages.strict import ConfigError
from tests.gradients import assert_same_way
from tests.stage_runs import (
    ONE_THREAD,
    Stop,
    assert_same_results,
    in_two_processes,
    stage_files,
    two_processes,
    write_inputs,
)
from tests.waiting import wait_for

COMMON = {
    "train": "train",
    "validation": "validation",
    "learning_rate": 1e-3,
    "train_batch_size": 8,
    "sampling_max_tokens": 8,
    "sampling_min_tokens": 2,
    "num_validation_examples": 2,
    "eval_every": 3,
    "checkpoint_every": 1,
}
VALUES = {
    "sft": COMMON | {"n_sft_steps": 3, "train_batch_size": 7, "micro_batch_tokens": 360},
    "grpo": COMMON
    | {"n_grpo_steps": 5, "rollout_batch_size": 8, "group_size": 4, "gradient_accumulation_steps": 4}
    | {"loss_type": "grpo_clip", "epochs_per_rollout_batch": 2, "training_reward": "random"},
}
STEPS = {"sft": sft.sft_step, "grpo": grpo.grpo_step}
TOTALS = {"sft": sft.total_steps, "grpo": lambda settings, _: settings.n_grpo_steps}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, validation=2)
    return folder


def files_of(inputs: Path, out: Path, stage: str, compute: dict, **changes) -> Files:
    return stage_files(inputs, out, stage, VALUES[stage] | changes, compute)


def run(files: Files, stage: str, stop_before: int | None = None) -> None:
    """The stage in this process; before step `stop_before` it dies, and its state stays."""

    def step(held):
        if held.step == stop_before:
            raise Stop
        return STEPS[stage](held)

    with training.opened(stage, files, TOTALS[stage]) as held:
        training.train(held, step)


def assert_same_metrics(one: Files, two: Files) -> None:
    rows, others = (read_table(files.metrics, METRICS).to_pylist() for files in (one, two))
    assert len(rows) == len(others)
    for name in (name for name in METRICS.names if name not in TIMINGS and name != "kind"):
        found, expected = ([-1.0 if row[name] is None else row[name] for row in each] for each in (rows, others))
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), name


def test_what_one_process_began_two_go_on_with(inputs, tmp_path):
    straight = files_of(inputs, tmp_path / "straight", "sft", {})
    run(straight, "sft")
    parted = files_of(inputs, tmp_path / "parted", "sft", {})
    with pytest.raises(Stop):
        run(parted, "sft", stop_before=1)
    files_of(inputs, tmp_path / "parted", "sft", {"train_processes": 2, "gradient_checkpointing": True})
    done = in_two_processes(parted, "sft")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("going on from step 1 of 3") == 1, "the first process alone reports"
    assert_same_metrics(parted, straight)
    assert_same_way(inputs / "model", parted.checkpoint, straight.checkpoint)


@pytest.fixture(scope="module")
def ended(inputs, tmp_path_factory) -> Files:
    """A run of two processes that was told to end, as Slurm and Ctrl-C tell it, after the first of its five steps."""
    files = files_of(inputs, tmp_path_factory.mktemp("ended"), "grpo", {"train_processes": 2})
    process = subprocess.Popen(
        two_processes(files, "grpo"), env=ONE_THREAD, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: any(files.state.glob("step_*")), process)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait() != 0
    assert not files.status.exists()
    return files


def left_by(ended: Files, inputs: Path, out: Path, compute: dict) -> Files:
    """The files of a run in `out` that finds what the one that was ended has left."""
    files = files_of(inputs, out, "grpo", compute)
    shutil.copytree(ended.state, files.state)
    return files


def test_two_processes_that_were_told_to_end_go_on_where_they_were(inputs, ended, tmp_path):
    straight = files_of(inputs, tmp_path / "straight", "grpo", {"train_processes": 2})
    again = left_by(ended, inputs, tmp_path / "again", {"train_processes": 2})
    for files, told in ((straight, 0), (again, 1)):
        done = in_two_processes(files, "grpo")
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("going on from step") == told
    assert_same_results(straight, again)


def test_what_two_processes_began_one_goes_on_with(inputs, ended, tmp_path):
    straight = files_of(inputs, tmp_path / "straight", "grpo", {})
    parted = left_by(ended, inputs, tmp_path / "parted", {})
    for files in (straight, parted):
        run(files, "grpo")
    assert_same_metrics(parted, straight)
    assert_same_way(inputs / "model", parted.checkpoint, straight.checkpoint)
    rows = [read_table(files.rollouts, ROLLOUTS).to_pylist() for files in (parted, straight)]
    assert [row["response_token_ids"] for row in rows[0]] == [row["response_token_ids"] for row in rows[1]]


def test_another_number_of_processes_than_told_is_an_error(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "sft", {"train_processes": 2})
    with pytest.raises(ConfigError, match=r"compute\.train_processes is 2, but 1 were started.*torchrun"):
        run(files, "sft")


@pytest.mark.parametrize("stage", VALUES)
def test_in_bfloat16_weights_take_steps_below_its_spacing(inputs, tmp_path, stage):
    """At 1e-6 a step is far below bfloat16's spacing around a weight of 0.2, which is 1e-3."""
    files = files_of(inputs, tmp_path, stage, {"dtype": "bfloat16"}, learning_rate=1e-6)
    with pytest.raises(Stop):
        run(files, stage, stop_before=1)
    before, after = (
        load_file(inputs / "model" / "model.safetensors"),
        load_file(files.state / "step_00000001" / "policy.safetensors"),
    )
    moved = torch.cat([(after[key].float() - before[key].float()).abs().flatten() for key in after])
    assert 1e-7 < moved.max() < 3e-6
    assert (moved > 0).float().mean() > 0.5


@pytest.mark.parametrize("stage", VALUES)
def test_in_bfloat16_losses_are_those_of_float32_but_for_rounding(inputs, tmp_path, stage):
    losses = []
    for dtype in ("float32", "bfloat16"):
        files = files_of(inputs, tmp_path / dtype, stage, {"dtype": dtype})
        run(files, stage)
        losses.append([row["loss"] for row in read_table(files.metrics, METRICS).to_pylist() if row["kind"] == "train"])
    if stage == "sft":  # GRPO samples from rounded weights: other responses
        assert losses[1] == pytest.approx(losses[0], rel=2e-2)
        assert losses[1] != losses[0]
    stored = load_file(files.checkpoint / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("compute", "steps"),
    [({"attention": "eager", "gradient_checkpointing": True}, [2]), ({"dtype": "bfloat16"}, [0, 1, 2])],
)
def test_a_run_goes_on_with_other_hardware_and_starts_again_in_another_dtype(inputs, tmp_path, compute, steps):
    files = files_of(inputs, tmp_path, "sft", {})
    with pytest.raises(Stop):
        run(files, "sft", stop_before=2)
    taken = []

    def step(held):
        taken.append(held.step)
        return sft.sft_step(held)

    files_of(inputs, tmp_path, "sft", compute)
    with training.opened("sft", files, sft.total_steps) as held:
        training.train(held, step)
    assert taken == steps
