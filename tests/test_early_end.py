"""Each way to fail, with its reason; and healthy runs that come near."""

from __future__ import annotations

import pytest

from stages import early_end
from stages.config import EarlyEnd
from stages.early_end import failure

RULES = EarlyEnd(gradient_norm_above=100.0, ratio_mean_above=5.0, token_entropy_below=0.01, zero_reward_steps=3)


def row(step: int = 7, **changes) -> dict:
    return {
        "kind": "train",
        "step": step,
        "loss": 0.1,
        "gradient_norm": 1.0,
        "token_entropy": 0.5,
        "reward": 0.2,
    } | changes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss": float("nan")}, "loss is nan at step 7"),
        ({"gradient_norm": float("inf")}, "gradient_norm is inf at step 7"),
        ({"gradient_norm": 100.5}, "gradient_norm is 100.5, above 100, at step 7"),
        ({"ratio_mean": 6.25}, "ratio_mean is 6.25, above 5, at step 7"),
        ({"token_entropy": 0.009}, "token_entropy is 0.009 nats, below 0.01, at step 7: the policy collapsed"),
    ],
)
def test_a_step_that_failed(changes, reason):
    assert failure([row(6), row(7, **changes)], 1, RULES) == reason


@pytest.mark.parametrize("changes", [{}, {"gradient_norm": 100.0}, {"ratio_mean": 5.0}, {"ratio_mean": None}])
def test_a_step_that_did_not(changes):
    assert failure([row(6), row(7, **changes)], 1, RULES) == ""


def test_fine_tuning_collapses_where_its_validation_says_so():
    """Its training rows tell of the responses that it imitates, not of what it would sample."""
    told = {"kind": "validation", "step": 5, "token_entropy": 0.009}
    taught = row(6, token_entropy=None, target_entropy=0.001)
    assert failure([told, taught], 1, RULES).startswith("token_entropy is 0.009 nats, below 0.01, at step 5")
    assert failure([told, told | {"token_entropy": 0.5}, taught], 1, RULES) == ""
    assert failure([taught], 1, RULES) == ""


def test_rewards_stuck_at_zero_need_the_whole_stretch():
    dead = [row(step, reward=0.0) for step in range(3)]
    assert "no response of the last 3 steps was rewarded" in failure(dead, 1, RULES)
    assert failure([*dead[:2], row(2)], 1, RULES) == ""
    assert failure([*dead[:1], {"kind": "validation", "step": 1, "reward": 0.0}, dead[2]], 1, RULES) == ""
    assert failure(dead, 1, RULES.model_copy(update={"zero_reward_steps": None})) == ""


def test_optimiser_steps_on_one_batch_of_rollouts_share_its_reward_and_count_once():
    two_batches = [row(step, reward=0.0) for step in range(8)]
    assert failure(two_batches, 4, RULES) == ""
    assert "no response of the last 3 steps" in failure([*two_batches, *two_batches[:4]], 4, RULES)


def test_fine_tuning_has_no_rewards_to_be_stuck():
    assert failure([row(step, reward=None) for step in range(9)], 1, RULES) == ""


def test_only_the_newest_rows_are_looked_at_and_all_of_them():
    assert failure([row(5, gradient_norm=1e9), row(6), row(7)], 2, RULES) == ""
    assert "step 6" in failure([row(5), row(6, gradient_norm=1e9), row(7)], 2, RULES)


@pytest.mark.parametrize("name", ["loss", "gradient_norm", "token_entropy", "sampler_gap", "perplexity"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_measure_that_is_not_finite_is_a_result(name, value):
    sound = {"kind": "train", "step": 3, "loss": 0.0, "gradient_norm": 0.0, "token_entropy": None}
    assert early_end.not_finite(sound) == ""
    assert early_end.not_finite(sound | {name: value}) == f"{name} is {value} at step 3"
    assert early_end.failure([sound | {name: value}], 1, EarlyEnd()) == f"{name} is {value} at step 3"


def test_sampled_log_probs_that_are_not_finite_are_told_with_the_example():
    sound = {"example_id": "a-1", "sampler_log_probs": [-1.0, -0.5], "mean_token_entropy": None}
    assert early_end.unsound([sound]) == ""
    assert early_end.unsound([sound, sound | {"sampler_log_probs": [-1.0, float("nan")]}]) == (
        "sampler_log_probs is nan in a response to example a-1"
    )
    assert "mean_token_entropy is inf" in early_end.unsound([sound | {"mean_token_entropy": float("inf")}])
