"""The optimiser step: its gradient is a function of the batch, not of how the batch is cut up."""

from __future__ import annotations

import pytest
import torch

from stages.config import Grpo
from stages.engines.protocol import Request, Sampling, sample_seed
from stages.engines.transformers import TransformersEngine
from stages.policy.rescoring import score_rollouts
from stages.policy.scoring import make_sequences, score
from stages.policy.update import needs_old_log_probs, update
from tests.gradients import Recorder, assert_same_gradient
from tests.tiny import qwen, tokenizer

GROUP = 4
REWARDS = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]  # groups 2 and 4 are dead


def settings(**changes) -> Grpo:
    values = {
        "train": "t",
        "validation": "v",
        "rollout_batch_size": 16,
        "train_batch_size": 16,
        "group_size": GROUP,
        "gradient_accumulation_steps": 1,
        "learning_rate": 1e-3,
        "sampling_max_tokens": 12,
        "max_grad_norm": 1e9,
    }
    return Grpo.model_validate(values | changes)


def rollouts(model, temperature: float = 1.0) -> list[dict]:
    prompts = [[5, 9, 30], [11, 12, 13, 14, 15], [40, 41], [50, 51, 52, 53]]
    requests = [Request(p, [sample_seed(0, 0, str(i), j) for j in range(GROUP)]) for i, p in enumerate(prompts)]
    answers = TransformersEngine(model, tokenizer()).generate(
        requests, Sampling(temperature, max_tokens=12, min_tokens=1, stop=("e",))
    )
    rows = [
        {
            "example_id": str(i),
            "prompt_token_ids": prompts[i],
            "response_token_ids": completion.token_ids,
            "sampler_log_probs": completion.log_probs,
            "num_response_tokens": len(completion.token_ids),
            "mean_token_entropy": completion.mean_entropy,
        }
        for i, group in enumerate(answers)
        for completion in group
    ]
    for row, reward in zip(rows, REWARDS, strict=True):
        row["reward"] = reward
    for start in range(0, len(rows), GROUP):
        group = torch.tensor(REWARDS[start : start + GROUP])
        for row, advantage in zip(rows[start : start + GROUP], (group - group.mean()).tolist(), strict=True):
            row["advantage"] = advantage
    return rows


def gradient(config: Grpo, moved: bool = False, sampler_off_by: float = 0.0) -> tuple[torch.Tensor, dict]:
    """`sampler_off_by` (nats) is how much likelier the sampler says each token was than it is to the trainer."""
    model = qwen().double()  # so that what is left is not rounding
    rows = rollouts(model)
    for row in rows:
        row["sampler_log_probs"] = [value + sampler_off_by for value in row["sampler_log_probs"]]
    score_rollouts(model, rows, config, old=needs_old_log_probs(config))
    if moved:  # a policy that has drifted from the one that sampled, so that ratios differ from 1
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.02 * torch.sin(torch.arange(p.numel()).view_as(p)))
    optimizer = Recorder(model.parameters(), lr=0.0)
    metrics = update(model, optimizer, rows, config, 0)
    return optimizer.gradient, metrics


LOSSES = ("no_baseline", "reinforce_with_baseline", "grpo_clip", "grpo_no_clip")


@pytest.mark.parametrize("length_normalization", ["masked_mean", "masked_normalize", "token_mean"])
@pytest.mark.parametrize("loss_type", LOSSES)
def test_gradient_does_not_depend_on_the_split_or_the_path(loss_type, length_normalization):
    shape = {"loss_type": loss_type, "length_normalization": length_normalization}
    shape["epochs_per_rollout_batch"] = 2  # so that ratios are against the policy that sampled
    expected, facts = gradient(settings(**shape, share_prompts=False), moved=True)
    for pieces in (1, 2, 4, 8, 16):
        for share in (False, True):
            config = settings(**shape, gradient_accumulation_steps=pieces, share_prompts=share)
            found, metrics = gradient(config, moved=True)
            assert_same_gradient(found, expected)
            assert metrics["loss"] == pytest.approx(facts["loss"], abs=1e-5)


@pytest.mark.parametrize("loss_type", LOSSES)
def test_leaving_out_dead_groups_changes_nothing(loss_type, monkeypatch):
    config = settings(loss_type=loss_type, epochs_per_rollout_batch=2)
    skipped, _ = gradient(config, moved=True)
    monkeypatch.setattr("stages.policy.update.signal_of", lambda row, config: 1.0)
    everything, _ = gradient(config, moved=True)
    torch.testing.assert_close(skipped, everything, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("pieces", [1, 2, 4, 16])
@pytest.mark.parametrize("share", [False, True])
def test_the_first_step_of_several_has_ratio_one_and_clips_nothing(pieces, share):
    shape = {"gradient_accumulation_steps": pieces, "share_prompts": share, "epochs_per_rollout_batch": 2}
    _, metrics = gradient(settings(loss_type="grpo_clip", **shape))
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["clip_fraction"] == 0.0
    assert metrics["sampler_gap"] < 1e-4


@pytest.mark.parametrize("loss_type", ["grpo_clip", "grpo_no_clip", "gspo", "cispo"])
def test_the_only_step_on_a_batch_is_on_policy_exactly(loss_type):
    """Whatever the micro-batches and the rounding: the policy is compared with itself."""
    config = settings(loss_type=loss_type, gradient_accumulation_steps=4)
    assert not needs_old_log_probs(config)
    _, metrics = gradient(config, moved=True)
    assert (metrics["ratio_mean"], metrics["ratio_max"], metrics.get("clip_fraction", 0.0)) == (1.0, 1.0, 0.0)


def test_at_ratio_one_clipped_and_plain_gradients_agree():
    plain, _ = gradient(settings(loss_type="reinforce_with_baseline"))
    clipped, _ = gradient(settings(loss_type="grpo_clip"))
    torch.testing.assert_close(clipped, plain, atol=1e-6, rtol=1e-4)


def test_the_gradient_is_the_papers_formula_worked_token_by_token():
    """-1/N sum_i A_i 1/|o_i| sum_t grad log pi(o_it), each response by itself, without padding or sharing."""
    model = qwen().double()
    rows = rollouts(model)
    loss = 0.0
    for row in rows:
        one = make_sequences([row["prompt_token_ids"]], [row["response_token_ids"]], "cpu")
        log_probs = score(model, one, temperature=1.0, shared=False)[0][0]
        loss = loss - row["advantage"] * log_probs.mean() / len(rows)
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    found, metrics = gradient(settings())
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
    assert metrics["loss"] == pytest.approx(loss.item(), abs=1e-6)


def test_a_batch_without_any_signal_moves_nothing():
    model = qwen()
    rows = rollouts(model)
    for row in rows:
        row["advantage"] = 0.0
    before = {key: p.clone() for key, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
    metrics = update(model, optimizer, rows, settings(), 0)
    assert metrics["gradient_norm"] == 0.0
    assert metrics["loss"] == 0.0
    assert all(torch.equal(p, before[key]) for key, p in model.named_parameters())


def test_a_gradient_that_is_not_finite_is_reported_and_not_applied():
    model = qwen()
    rows = rollouts(model)
    rows[0]["advantage"] = float("inf")
    before = {key: p.clone() for key, p in model.named_parameters()}
    metrics = update(model, torch.optim.AdamW(model.parameters(), lr=0.1), rows, settings(), 0)
    assert not torch.isfinite(torch.tensor(metrics["gradient_norm"]))
    assert all(torch.equal(p, before[key]) for key, p in model.named_parameters())


@pytest.mark.parametrize("steps", [1, 2])
def test_a_sampler_that_agrees_with_the_trainer_needs_no_correction(steps):
    """Weights are 1 up to the gap between the two, whether old log-probs are scored or are the policy's own."""
    config = settings(sampler_ratio_cap=2.0, epochs_per_rollout_batch=steps)
    assert needs_old_log_probs(config) == (steps > 1)
    plain, facts = gradient(settings())
    corrected, metrics = gradient(config)
    torch.testing.assert_close(corrected, plain, atol=1e-6, rtol=1e-4)
    assert metrics["sampler_weight"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["sampler_capped"] == 0.0
    assert "sampler_weight" not in facts


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize(("off_by", "weight", "capped"), [(0.5, 0.60653, 0.0), (-0.5, 1.64872, 0.0), (-3.0, 2.0, 1.0)])
def test_each_tokens_loss_is_weighed_by_trainer_over_sampler_up_to_the_cap(loss_type, off_by, weight, capped):
    plain, _ = gradient(settings(loss_type=loss_type))
    found, metrics = gradient(settings(loss_type=loss_type, sampler_ratio_cap=2.0), sampler_off_by=off_by)
    torch.testing.assert_close(found, weight * plain, atol=1e-6, rtol=1e-4)
    assert metrics["sampler_weight"] == pytest.approx(weight, abs=1e-4)
    assert metrics["sampler_capped"] == capped


def test_the_weight_is_the_trainers_at_rollout_time_not_that_of_the_policy_being_updated():
    config = settings(loss_type="grpo_no_clip", sampler_ratio_cap=2.0, epochs_per_rollout_batch=2)
    _, metrics = gradient(config, moved=True)
    assert abs(metrics["ratio_mean"] - 1) > 1e-3
    assert metrics["sampler_weight"] == pytest.approx(1.0, abs=1e-5)


def test_without_a_cap_the_sampler_has_no_say():
    plain, _ = gradient(settings())
    found, metrics = gradient(settings(), sampler_off_by=-3.0)
    assert torch.equal(found, plain)
    assert metrics["sampler_gap"] == pytest.approx(3.0, abs=1e-4)


@pytest.mark.parametrize("loss_type", [*LOSSES, "gspo", "cispo"])
def test_no_diagnostic_depends_on_how_the_batch_is_split(loss_type):
    """Not on which responses without a signal happen to share a unit with one that has a signal, either."""
    shape = {"loss_type": loss_type, "epochs_per_rollout_batch": 2, "sampler_ratio_cap": 1.0, "cliprange": 0.05}
    _, expected = gradient(settings(**shape), moved=True, sampler_off_by=0.1)
    assert {"sampler_gap", "sampler_weight", "sampler_capped"} <= expected.keys()
    for pieces in (2, 4, 16):
        found = gradient(settings(**shape, gradient_accumulation_steps=pieces), moved=True, sampler_off_by=0.1)[1]
        assert found == pytest.approx(expected, abs=1e-6, rel=1e-6), pieces


def test_clipping_is_counted_over_the_whole_batch_and_ratios_over_what_has_a_signal():
    """Each response scored by itself: group 2 and 4 are dead, so that half of the batch can clip nothing."""
    config = settings(loss_type="grpo_clip", epochs_per_rollout_batch=2, cliprange=0.05)
    model = qwen().double()
    rows = rollouts(model)
    score_rollouts(model, rows, config, old=True)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.sin(torch.arange(p.numel()).view_as(p)))
        ratios, clipped = [], 0
        for row in rows:
            one = make_sequences([row["prompt_token_ids"]], [row["response_token_ids"]], "cpu")
            change = score(model, one, temperature=1.0, shared=False)[0][0] - torch.tensor(row["old_log_probs"])
            up, down = (change.exp() > 1.05).sum().item(), (change.exp() < 0.95).sum().item()
            clipped += up if row["advantage"] > 0 else down if row["advantage"] < 0 else 0
            ratios += change.exp().tolist() if row["advantage"] else []
    metrics = update(model, torch.optim.SGD(model.parameters(), lr=0.0), rows, config, 0)
    assert clipped
    assert metrics["clip_fraction"] == pytest.approx(clipped / sum(row["num_response_tokens"] for row in rows))
    assert metrics["ratio_mean"] == pytest.approx(sum(ratios) / len(ratios), abs=1e-6)
    assert metrics["ratio_max"] == pytest.approx(max(ratios), abs=1e-6)


def test_a_batch_without_signal_calls_no_optimiser_and_says_so():
    """Momentum from the step before would move the policy, and weight decay shrink it; neither learned anything."""
    model, config = qwen(), settings()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    rows = rollouts(model)
    assert update(model, optimizer, rows, config, 0)["skipped"] == 0
    before = {key: p.clone() for key, p in model.named_parameters()}
    moments = [optimizer.state[p]["exp_avg"].clone() for p in model.parameters()]
    metrics = update(model, optimizer, [row | {"advantage": 0.0} for row in rows], config, 1)
    assert metrics == {"loss": 0.0, "gradient_norm": 0.0, "learning_rate": config.learning_rate, "skipped": 1}
    assert all(torch.equal(p, before[key]) for key, p in model.named_parameters())
    for p, moment in zip(model.parameters(), moments, strict=True):
        assert torch.equal(optimizer.state[p]["exp_avg"], moment)


@pytest.mark.parametrize("loss_type", [*LOSSES, "gspo", "cispo"])
def test_a_batch_without_signal_clips_none_of_its_tokens(loss_type):
    """Its share belongs into a mean over steps like any other; a loss that never clips has none."""
    model, config = qwen(), settings(loss_type=loss_type)
    rows = [row | {"advantage": 0.0, "reward": 0.0} for row in rollouts(model)]
    metrics = update(model, torch.optim.SGD(model.parameters(), lr=0.0), rows, config, 0)
    assert metrics["skipped"] == 1
    assert metrics.get("clip_fraction") == (0.0 if loss_type in ("grpo_clip", "gspo", "cispo") else None)


@pytest.mark.parametrize("pieces", [1, 4, 16])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainer_tells_the_entropies_that_a_sampler_could_not(pieces, temperature):
    """Of all responses, those of dead groups included, the Transformers engine's own numbers."""
    model, config = qwen(), settings(gradient_accumulation_steps=pieces, sampling_temperature=temperature)
    rows = rollouts(model, temperature)
    told = [row["mean_token_entropy"] for row in rows]
    score_rollouts(model, rows, config)
    assert [row["mean_token_entropy"] for row in rows] == told, "what is known is left as it is"
    for row in rows:
        row["mean_token_entropy"] = None
    score_rollouts(model, rows, config)
    assert [row["mean_token_entropy"] for row in rows] == pytest.approx(told, abs=1e-5)
    assert all(row.get("old_log_probs") is None for row in rows)


def test_a_response_of_no_token_has_no_entropy_and_hinders_no_other():
    model, config = qwen(), settings(gradient_accumulation_steps=16)
    rows = rollouts(model)
    rows[2] |= {"response_token_ids": [], "sampler_log_probs": [], "num_response_tokens": 0, "mean_token_entropy": None}
    rows[3] |= {"mean_token_entropy": None}
    score_rollouts(model, rows, config, old=True)
    assert (rows[2]["mean_token_entropy"], rows[2]["old_log_probs"]) == (None, [])
    assert rows[3]["mean_token_entropy"] > 0
    metrics = update(model, torch.optim.SGD(model.parameters(), lr=0.0), rows, config, 0)
    assert metrics["sampler_gap"] < 1e-4
