"""Runs that are stopped and go on: equal, bit for bit, to runs that are not."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from stages import grpo, records, sft, training
from stages.examples import batch_of
from stages.records import EXAMPLES, METRICS, ROLLOUTS, read_table, table, write_table
from stages.store import StateError
from tests.stage_runs import ONE_THREAD, Stop, assert_same_results, options, stage_files, write_inputs
from tests.waiting import wait_for

COMMON = {
    "train": "train",
    "validation": "validation",
    "learning_rate": 1e-3,
    "sampling_max_tokens": 12,
    "eval_every": 2,
    "num_validation_examples": 4,
    "checkpoint_every": 1,
}
VALUES = {
    "sft": COMMON | {"n_sft_steps": 4, "train_batch_size": 4, "micro_batch_tokens": 400, "lr_schedule": "cosine"},
    "grpo": COMMON
    | {"n_grpo_steps": 4, "rollout_batch_size": 8, "train_batch_size": 8, "group_size": 4}
    | {"gradient_accumulation_steps": 2, "lr_schedule": "linear", "warmup_fraction": 0.5},
    "off_policy": COMMON
    | {"n_grpo_steps": 4, "rollout_batch_size": 8, "train_batch_size": 4, "group_size": 4}
    | {"gradient_accumulation_steps": 2, "epochs_per_rollout_batch": 2, "loss_type": "grpo_clip"},
}
STEPS = {"sft": sft.sft_step, "grpo": grpo.grpo_step, "off_policy": grpo.grpo_step}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """A policy that has learned to answer at once, often wrongly, so that rewards differ within a group."""
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, validation=6)
    warm = {"n_sft_steps": 60, "learning_rate": 1e-2, "train_batch_size": 12, "eval_every": 60, "checkpoint_every": 60}
    files = files_of(folder, folder / "warm", "sft", **warm)
    run(files, "sft")
    shutil.rmtree(folder / "model")
    files.checkpoint.rename(folder / "model")
    return folder


def files_of(inputs: Path, out: Path, kind: str, **changes) -> training.Files:
    return stage_files(inputs, out, "sft" if kind == "sft" else "grpo", VALUES[kind] | changes)


def run(files: training.Files, kind: str, step=None) -> None:
    stage = "sft" if kind == "sft" else "grpo"
    total = sft.total_steps if kind == "sft" else (lambda settings, _: settings.n_grpo_steps)
    with training.opened(stage, files, total) as held:
        training.train(held, step or STEPS[kind])


def stopping_at(kind: str, limit: int):
    """The stage's step function, which dies before step `limit` is taken."""

    def step(held):
        if held.step == limit:
            raise Stop
        return STEPS[kind](held)

    return step


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("checkpoint_every", [1, 3])
def test_k_and_k_steps_are_2k_steps(inputs, tmp_path, kind, checkpoint_every):
    straight = files_of(inputs, tmp_path / "straight", kind, checkpoint_every=checkpoint_every)
    run(straight, kind)
    broken = files_of(inputs, tmp_path / "broken", kind, checkpoint_every=checkpoint_every)
    for limit in (1, 2, 3):
        with pytest.raises(Stop):
            run(broken, kind, stopping_at(kind, limit))
        assert not broken.metrics.exists()
    run(broken, kind)
    assert_same_results(straight, broken)
    left_over = sorted(path.name for path in broken.state.iterdir())
    assert left_over == ["lock"]


def test_the_policy_moves_and_the_first_batch_repeats_nowhere(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "grpo")
    run(files, "grpo")
    before = load_file(inputs / "model" / "model.safetensors")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    assert len(rows) == 4 * 8
    assert len({(row["step"], row["example_id"], row["sample_index"]) for row in rows}) == len(rows)
    assert any(row["advantage"] for row in rows)
    after = load_file(files.checkpoint / "model.safetensors")
    assert any(not torch.equal(before[key], after[key]) for key in after)


def test_validation_on_what_is_trained_on_is_told(inputs, tmp_path, capsys):
    values = COMMON | {"num_validation_examples": "full"}
    mixed = read_table(inputs / "train.parquet", EXAMPLES).to_pylist()[:2]
    mixed += read_table(inputs / "validation.parquet", EXAMPLES).to_pylist()
    write_table(tmp_path / "mixed.parquet", table(mixed, EXAMPLES))
    for name, told in ((inputs / "validation.parquet", False), (tmp_path / "mixed.parquet", True)):
        with training.opened("grpo", stage_files(inputs, tmp_path, "grpo", values, data=("train.parquet", name))):
            said = capsys.readouterr().err
        assert ("warning: test/grpo: 2 of 8 validation examples are trained on as well" in said) == told


def test_state_of_another_spec_or_other_code_is_not_resumed(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "sft")
    with pytest.raises(Stop):
        run(files, "sft", stopping_at("sft", 3))
    files_of(inputs, tmp_path, "sft", learning_rate=5e-4)
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


def test_a_second_process_on_the_same_run_is_refused(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "sft")

    def intrude(held):
        run(files, "sft")
        return []

    with pytest.raises(StateError, match="another process is running this job"):
        run(files, "sft", intrude)


def test_divergence_ends_the_run_with_a_reason_and_keeps_what_there_is(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "sft")

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


def arguments(files: training.Files, kind: str) -> list[str]:
    return [sys.executable, "-m", f"stages.{'sft' if kind == 'sft' else 'grpo'}", *options(files)]


@pytest.mark.parametrize(("kind", "sign"), [("sft", signal.SIGTERM), ("grpo", signal.SIGKILL)])
def test_a_killed_process_goes_on_where_it_was(inputs, tmp_path, kind, sign):
    steps = {"n_sft_steps": 40} if kind == "sft" else {"n_grpo_steps": 25}
    straight = files_of(inputs, tmp_path / "straight", kind, **steps)
    run(straight, kind)
    killed = files_of(inputs, tmp_path / "killed", kind, **steps)
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


def test_the_loss_of_a_step_can_be_recomputed_from_the_rollouts_file_alone(inputs, tmp_path):
    """On-policy, the sampler's log-probs are the policy's: -1/N sum_i A_i mean_t log pi, from Parquet."""
    files = files_of(inputs, tmp_path, "grpo")
    run(files, "grpo")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    losses = [row["loss"] for row in read_table(files.metrics, METRICS).to_pylist() if row["kind"] == "train"]
    for step, loss in enumerate(losses):
        batch = [row for row in rows if row["step"] == step]
        terms = [-r["advantage"] * sum(r["sampler_log_probs"]) / len(r["sampler_log_probs"]) for r in batch]
        assert sum(terms) / len(batch) == pytest.approx(loss, abs=1e-5)
        rewards = torch.tensor([row["reward"] for row in batch]).view(-1, 4)
        assert torch.isfinite(rewards).all()


def test_epochs_visit_every_example_once():
    rows = [{"example_id": i} for i in range(10)]
    seen = [row["example_id"] for step in range(10) for row in batch_of(rows, 3, step, seed=0)]
    for epoch in range(3):
        assert sorted(seen[10 * epoch : 10 * epoch + 10]) == list(range(10))
    assert seen[:10] != seen[10:20]
    assert batch_of(rows, 3, 7, seed=0) == batch_of(rows, 3, 7, seed=0)
    assert batch_of(rows, 3, 7, seed=0) != batch_of(rows, 3, 7, seed=1)


def test_off_policy_epochs_use_every_rollout_once_and_keep_groups_whole():
    from stages.config import Grpo

    settings = Grpo.model_validate(
        VALUES["off_policy"] | {"rollout_batch_size": 32, "train_batch_size": 8, "epochs_per_rollout_batch": 3}
    )
    rows = [{"example_id": i // 4, "row": i} for i in range(32)]
    for epoch in range(3):
        parts = [grpo.train_batch(rows, settings, 5, 4 * epoch + part) for part in range(4)]
        assert sorted(row["row"] for part in parts for row in part) == list(range(32))
        for part in parts:
            assert [row["example_id"] for row in part[:4]] == [part[0]["example_id"]] * 4
    assert settings.n_train_steps_per_rollout_batch == 12


@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_dataset_that_cannot_be_trained_on_is_named(inputs, tmp_path, name):
    files = files_of(inputs, tmp_path, "sft")
    empty = tmp_path / "empty.parquet"
    write_table(empty, table([], EXAMPLES))
    broken = training.Files(**{**files.__dict__, name: empty})
    with pytest.raises(records.DataError, match=r"empty\.parquet: no examples"):
        run(broken, "sft")


def test_fine_tuning_without_responses_is_an_error(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "sft")
    bare = training.Files(**{**files.__dict__, "train": inputs / "validation.parquet"})
    with pytest.raises(records.DataError, match="no responses to fine-tune on"):
        run(bare, "sft")


def test_a_wall_clock_budget_ends_a_run_as_finished_with_a_last_validation(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "grpo", max_seconds=1e-3)
    run(files, "grpo")
    status = json.loads(files.status.read_text())
    assert (status["status"], status["steps"]) == ("finished", 1)
    metrics = read_table(files.metrics, METRICS).to_pylist()
    assert [row["kind"] for row in metrics] == ["validation", "train", "validation"]


def test_a_run_killed_after_its_budget_was_spent_takes_no_further_step(inputs, tmp_path, monkeypatch):
    files = files_of(inputs, tmp_path, "grpo", max_seconds=1e-3)

    def killed(held):
        raise Stop

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(training.Run, "finish", killed)
        run(files, "grpo")
    run(files, "grpo", killed)
    assert json.loads(files.status.read_text())["steps"] == 1


@pytest.mark.parametrize("reward", ["answer", "format", "random"])
def test_training_rewards_are_the_only_thing_they_change(inputs, tmp_path, reward):
    files = files_of(inputs, tmp_path, "grpo", training_reward=reward, n_grpo_steps=2)
    run(files, "grpo")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    expected = {"answer": "answer_reward", "format": "format_reward"}.get(reward)
    if expected:
        assert [row["reward"] for row in rows] == [row[expected] for row in rows]
    else:
        assert {row["reward"] for row in rows} == {0.0, 1.0}
    for row in read_table(files.generations, ROLLOUTS).to_pylist():
        assert row["reward"] == row["answer_reward"]


def test_dynamic_sampling_prefers_groups_that_differ_and_keeps_every_rollout(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "grpo", max_sampling_rounds=3)
    run(files, "grpo")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    used = [row for row in rows if row["advantage"] is not None]
    assert len(used) == 4 * 8
    assert len(rows) > len(used)
    for step in range(4):
        spare = [row for row in rows if row["step"] == step and row["advantage"] is None]
        dead = [row for row in used if row["step"] == step and row["advantage"] == 0.0]
        groups: dict[str, set] = {}
        for row in spare:
            groups.setdefault(row["example_id"], set()).add(row["reward"])
        if dead:  # filled up with tied groups only because nothing better was left over
            assert all(len(rewards) == 1 for rewards in groups.values())


def test_the_config_offers_exactly_the_losses_there_are():
    from typing import get_args

    from stages.algorithm.policy_gradient import AGGREGATIONS, SURROGATES
    from stages.config import Grpo

    fields = Grpo.model_fields
    assert set(get_args(fields["loss_type"].annotation)) == set(SURROGATES)
    assert set(get_args(fields["length_normalization"].annotation)) == set(AGGREGATIONS)
    assert set(get_args(fields["training_reward"].annotation)) == set(grpo.TRAINING_REWARDS)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [60, 200, 10_000])
def test_fine_tuning_does_not_depend_on_how_it_is_computed(inputs, tmp_path, budget, share):
    """Micro-batches of one response, of a few, of all, the template run once or every time: the same step, because
    the mean is over the batch's tokens."""
    weights = []
    for name, how in (
        ("plain", {"micro_batch_tokens": 100_000, "share_prompts": False}),
        ("other", {"micro_batch_tokens": budget, "share_prompts": share}),
    ):
        one = {"n_sft_steps": 1, "learning_rate": 1e-3, "train_batch_size": 8}
        files = files_of(inputs, tmp_path / name, "sft", **how, **one)
        seen = []
        run(files, "sft", lambda held, seen=seen: seen.append(sft.sft_step(held)) or seen[0])
        weights.append(load_file(files.checkpoint / "model.safetensors"))
    for key, value in weights[0].items():
        torch.testing.assert_close(weights[1][key], value, atol=2e-5, rtol=1e-4, msg=key)


def test_micro_batches_stay_within_the_budget_and_lose_nothing():
    batch = [([1] * p, [2] * r) for p, r in ((3, 4), (10, 1), (2, 2), (7, 9), (1, 1))]
    parts = sft.micro_batches(batch, 20)
    assert sorted(pair for part in parts for pair in part) == sorted(batch)
    for part in parts:
        assert len(part) == 1 or len(part) * max(len(p) + len(r) for p, r in part) <= 20
    assert len(sft.micro_batches(batch, 10_000)) == 1


def test_every_phase_of_a_step_has_its_seconds(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "off_policy")
    run(files, "off_policy")
    steps = [row for row in read_table(files.metrics, METRICS).to_pylist() if row["kind"] == "train"]
    for row in steps[3::4]:  # four optimiser steps on each rollout batch; the last one has the seconds of all
        phases = [row[f"seconds_{phase}"] for phase in ("sample", "grade", "score", "train", "sync")]
        assert all(seconds >= 0 for seconds in phases)
        assert row["num_tokens"] / row["tokens_per_second"] >= sum(phases)  # the whole step holds its phases
