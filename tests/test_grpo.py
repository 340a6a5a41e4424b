"""GRPO's own step: what it samples, rewards and trains on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file

from stages import grpo
from stages.algorithm.policy_gradient import AGGREGATIONS, SURROGATES
from stages.config import Grpo
from stages.engines.transformers import TransformersEngine
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
        batch = [row for row in rows if row["rollout_batch"] == step + 1]
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
        asked = {row["example_id"] for row in rows if row["rollout_batch"] == step + 1}
        assert asked >= {row["example_id"] for row in batch_of(train, 2, step, seed=0)}, "none is passed over"
        spare = [row for row in rows if row["rollout_batch"] == step + 1 and row["advantage"] is None]
        dead = [row for row in used if row["rollout_batch"] == step + 1 and row["advantage"] == 0.0]
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


def tables(files) -> tuple[list[dict], list[dict], list[dict], list[dict]]:
    """Training and validation rows of METRICS, training and validation rows of ROLLOUTS."""
    metrics = read_table(files.metrics, METRICS).to_pylist()
    by_kind = [[row for row in metrics if row["kind"] == kind] for kind in ("train", "validation")]
    return *by_kind, *(read_table(file, ROLLOUTS).to_pylist() for file in (files.rollouts, files.generations))


@pytest.mark.parametrize(("kind", "each"), [("grpo", 1), ("off_policy", 4)])
def test_metrics_and_rollouts_join_on_both_their_numbers(warm, tmp_path, kind, each):
    """`each` optimiser steps on a batch, which the policy sampled before the first of them."""
    files = files_of(warm, tmp_path, kind)
    run(files, kind)
    train, validation, rollouts, generations = tables(files)
    assert [(row["step"], row["rollout_batch"]) for row in train] == [(n + 1, n // each + 1) for n in range(4 * each)]
    sampled = {(row["rollout_batch"], row["step"]) for row in rollouts}
    assert sampled == {(batch, each * (batch - 1)) for batch in range(1, 5)}
    for row in train:
        batch = [one for one in rollouts if one["rollout_batch"] == row["rollout_batch"]]
        assert row["reward"] == pytest.approx(sum(one["reward"] for one in batch) / len(batch))
        assert row["num_tokens"] == sum(one["num_response_tokens"] for one in batch)
    assert [(row["step"], row["rollout_batch"]) for row in validation] == [(0, 0), (2 * each, 2), (4 * each, 4)]
    for row in validation:
        answers = [one for one in generations if one["step"] == row["step"]]
        assert {one["rollout_batch"] for one in answers} == {row["rollout_batch"]}
        assert row["answer_reward"] == sum(one["answer_reward"] for one in answers) / len(answers)


def test_fine_tuning_has_no_rollout_batch_and_calls_its_targets_by_their_name(warm, tmp_path):
    files = files_of(warm, tmp_path, "sft")
    run(files, "sft")
    metrics = read_table(files.metrics, METRICS).to_pylist()
    assert {row["rollout_batch"] for row in metrics} == {None}
    for row in metrics:
        trains = row["kind"] == "train"
        assert {(row[name] is not None) for name in ("target_entropy", "target_length")} == {trains}
        assert {(row[name] is not None) for name in ("token_entropy", "length")} == {not trains}
    assert {row["rollout_batch"] for row in read_table(files.generations, ROLLOUTS).to_pylist()} == {None}


def test_dynamic_sampling_measures_what_was_sampled_and_says_what_was_kept(warm, tmp_path):
    files = files_of(warm, tmp_path, "grpo", max_sampling_rounds=3)
    run(files, "grpo")
    train, _, rollouts, _ = tables(files)
    for row in train:
        batch = [one for one in rollouts if one["rollout_batch"] == row["rollout_batch"]]
        kept = [one for one in batch if one["advantage"] is not None]
        assert row["num_tokens"] == sum(one["num_response_tokens"] for one in batch)
        for name in ("reward", "format_reward", "answer_reward"):
            assert row[name] == pytest.approx(sum(one[name] for one in batch) / len(batch))
        assert row["kept"] == len(kept) / len(batch)
        assert row["kept_reward"] == pytest.approx(sum(one["reward"] for one in kept) / len(kept))
        rewards = torch.tensor([one["reward"] for one in batch]).view(-1, 4)
        assert row["zero_variance_groups"] == (rewards.std(-1) == 0).double().mean().item()
    assert min(row["kept"] for row in train) < 1


class Mute(TransformersEngine):
    """Tells what vLLM tells: no entropy."""

    def generate(self, requests, sampling):
        answers = super().generate(requests, sampling)
        return [[replace(completion, mean_entropy=None) for completion in group] for group in answers]


@pytest.mark.parametrize(
    ("kind", "changes"), [("grpo", {"max_sampling_rounds": 3}), ("off_policy", {}), ("sft", {"n_sft_steps": 2})]
)
def test_entropies_are_the_same_whoever_tells_them(warm, tmp_path, monkeypatch, kind, changes):
    told, mute = (files_of(warm, tmp_path / name, kind, **changes) for name in ("told", "mute"))
    run(told, kind)
    monkeypatch.setattr("stages.run.open_engine", lambda compute, path, *rest: Mute(*rest))
    run(mute, kind)
    columns = [[row["token_entropy"] for row in read_table(f.metrics, METRICS).to_pylist()] for f in (told, mute)]
    assert columns[1] == [None if value is None else pytest.approx(value, abs=1e-5) for value in columns[0]]
    assert columns[0][0] is not None
    for name in ("rollouts", "generations"):
        if getattr(told, name):
            rows = [
                read_table(getattr(files, name), ROLLOUTS)["mean_token_entropy"].to_pylist() for files in (told, mute)
            ]
            assert rows[1] == pytest.approx(rows[0], abs=1e-5)


def test_a_run_says_how_many_optimiser_steps_had_no_signal(warm, tmp_path, monkeypatch):
    monkeypatch.setitem(
        grpo.TRAINING_REWARDS, "format", lambda row: float(row["rollout_batch"] == 2) * row["sample_index"]
    )
    files = files_of(warm, tmp_path, "grpo", training_reward="format")
    run(files, "grpo")
    train, *_ = tables(files)
    assert [row["skipped"] for row in train] == [1, 0, 1, 1]
    assert json.loads(files.status.read_text())["steps_skipped"] == 3
