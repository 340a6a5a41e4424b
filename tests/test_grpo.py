"""GRPO's own step: what it samples, rewards and trains on."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from safetensors.torch import load_file

from stages import grpo
from stages.algorithm.policy_gradient import AGGREGATIONS, SURROGATES
from stages.config import Grpo
from stages.examples import batch_of
from stages.records import EXAMPLES, METRICS, ROLLOUTS, read_table
from tests.small_runs import VALUES, files_of, run


def test_the_policy_moves_and_the_first_batch_repeats_nowhere(warm, tmp_path):
    files = files_of(warm, tmp_path, "grpo")
    run(files, "grpo")
    before = load_file(warm / "model" / "model.safetensors")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    assert len(rows) == 4 * 8
    assert len({(row["step"], row["example_id"], row["sample_index"]) for row in rows}) == len(rows)
    assert any(row["advantage"] for row in rows)
    after = load_file(files.checkpoint / "model.safetensors")
    assert any(not torch.equal(before[key], after[key]) for key in after)


def test_the_loss_of_a_step_can_be_recomputed_from_the_rollouts_file_alone(warm, tmp_path):
    """On-policy, the sampler's log-probs are the policy's: -1/N sum_i A_i mean_t log pi, from Parquet."""
    files = files_of(warm, tmp_path, "grpo")
    run(files, "grpo")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    losses = [row["loss"] for row in read_table(files.metrics, METRICS).to_pylist() if row["kind"] == "train"]
    for step, loss in enumerate(losses):
        batch = [row for row in rows if row["step"] == step]
        terms = [-r["advantage"] * sum(r["sampler_log_probs"]) / len(r["sampler_log_probs"]) for r in batch]
        assert sum(terms) / len(batch) == pytest.approx(loss, abs=1e-5)
        rewards = torch.tensor([row["reward"] for row in batch]).view(-1, 4)
        assert torch.isfinite(rewards).all()


def test_off_policy_epochs_use_every_rollout_once_and_keep_groups_whole():
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


@pytest.mark.parametrize("reward", ["answer", "format", "random"])
def test_training_rewards_are_the_only_thing_they_change(warm, tmp_path, reward):
    files = files_of(warm, tmp_path, "grpo", training_reward=reward, n_grpo_steps=2)
    run(files, "grpo")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    expected = {"answer": "answer_reward", "format": "format_reward"}.get(reward)
    if expected:
        assert [row["reward"] for row in rows] == [row[expected] for row in rows]
    else:
        assert {row["reward"] for row in rows} == {0.0, 1.0}
    for row in read_table(files.generations, ROLLOUTS).to_pylist():
        assert row["reward"] == row["answer_reward"]


def test_dynamic_sampling_prefers_groups_that_differ_and_keeps_every_rollout(warm, tmp_path):
    files = files_of(warm, tmp_path, "grpo", max_sampling_rounds=3)
    run(files, "grpo")
    rows = read_table(files.rollouts, ROLLOUTS).to_pylist()
    used = [row for row in rows if row["advantage"] is not None]
    assert len(used) == 4 * 8
    assert len(rows) > len(used)
    train = read_table(files.train, EXAMPLES).to_pylist()
    for step in range(4):
        asked = {row["example_id"] for row in rows if row["step"] == step}
        assert asked >= {row["example_id"] for row in batch_of(train, 2, step, seed=0)}, "none is passed over"
        spare = [row for row in rows if row["step"] == step and row["advantage"] is None]
        dead = [row for row in used if row["step"] == step and row["advantage"] == 0.0]
        groups: dict[str, set] = {}
        for row in spare:
            groups.setdefault(row["example_id"], set()).add(row["reward"])
        if dead:  # filled up with tied groups only because nothing better was left over
            assert all(len(rewards) == 1 for rewards in groups.values())


def test_the_config_offers_exactly_the_losses_there_are():
    fields = Grpo.model_fields
    assert set(get_args(fields["loss_type"].annotation)) == set(SURROGATES)
    assert set(get_args(fields["length_normalization"].annotation)) == set(AGGREGATIONS)
    assert set(get_args(fields["training_reward"].annotation)) == set(grpo.TRAINING_REWARDS)


def test_every_phase_of_a_step_has_its_seconds(warm, tmp_path):
    files = files_of(warm, tmp_path, "off_policy")
    run(files, "off_policy")
    steps = [row for row in read_table(files.metrics, METRICS).to_pylist() if row["kind"] == "train"]
    for row in steps[3::4]:  # four optimiser steps on each rollout batch; the last one has the seconds of all
        phases = [row[f"seconds_{phase}"] for phase in ("sample", "grade", "score", "train", "sync")]
        assert all(seconds >= 0 for seconds in phases)
        assert row["num_tokens"] / row["tokens_per_second"] >= sum(phases)  # the whole step holds its phases
