import math

import pytest
import torch

from stages.algorithm.advantages import BASELINES, compute_group_normalized_rewards, group_advantages


def test_two_groups_by_hand():
    # group 1: mean 1/4, unbiased variance (9/16 + 3/16) / 3 = 1/4; group 2: mean 1/2, variance 1/3
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    centred = torch.tensor([0.75, -0.25, -0.25, -0.25, 0.5, 0.5, -0.5, -0.5])
    scaled = torch.cat([centred[:4] / 0.5, centred[4:] / math.sqrt(1 / 3)])
    torch.testing.assert_close(group_advantages(rewards, 4, normalize_by_std=False), centred)
    torch.testing.assert_close(group_advantages(rewards, 4, advantage_eps=0.0), scaled)
    torch.testing.assert_close(group_advantages(rewards, 4, advantage_eps=0.5)[:4], centred[:4])


def test_groups_are_blocks_and_not_strides():
    rewards = torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert group_advantages(rewards, 2).tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("normalize_by_std", [True, False])
@pytest.mark.parametrize("reward", [0.1, 0.0, 1.0, 1 / 3, -0.7])
def test_equal_rewards_give_exactly_zero(reward, normalize_by_std):
    for group_size in (3, 7, 8):
        rewards = torch.full((group_size,), reward, dtype=torch.float32)
        advantages = group_advantages(rewards, group_size, normalize_by_std=normalize_by_std)
        assert advantages.tolist() == [0.0] * group_size


def test_a_group_of_one_has_no_advantage():
    assert group_advantages(torch.tensor([0.0, 1.0]), 1).tolist() == [0.0, 0.0]


def test_without_baseline_the_reward_is_the_advantage():
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0])
    raw = group_advantages(rewards, 2, baseline="none", normalize_by_std=False)
    assert raw.tolist() == rewards.tolist()
    scaled = group_advantages(rewards, 2, baseline="none", advantage_eps=0.0)
    torch.testing.assert_close(scaled, torch.tensor([math.sqrt(2), 0.0, 1.0, 1.0]))


def test_a_shift_of_all_rewards_changes_nothing_under_the_group_mean():
    rewards = torch.tensor([0.0, 1.0, 0.5, 0.25, 1.0, 0.0, 0.0, 0.75])
    torch.testing.assert_close(group_advantages(rewards + 4.0, 4), group_advantages(rewards, 4))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_rewards_that_are_not_finite_are_refused_by_number(bad):
    with pytest.raises(ValueError, match="rollout 2 has"):
        group_advantages(torch.tensor([0.0, 1.0, bad, 1.0]), 2)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="5 rewards do not divide into groups of group_size=2"):
        group_advantages(torch.zeros(5), 2)
    with pytest.raises(ValueError, match=r"\[batch\], got shape \(2, 1\)"):
        group_advantages(torch.zeros(2, 1), 2)
    with pytest.raises(ValueError, match=", ".join(BASELINES)):
        group_advantages(torch.zeros(2), 2, baseline="median")


def exact_match(response: str, ground_truth: str) -> dict[str, float]:
    formatted = float(response.startswith("answer "))
    correct = float(response == f"answer {ground_truth}")
    return {"reward": correct, "format_reward": formatted, "answer_reward": correct}


def test_rollouts_are_graded_in_order_and_normalised_in_groups():
    responses = ["answer 4", "four", "answer 5", "answer 4", "answer 1", "answer 2", "answer 3", "4"]
    truths = ["4"] * 4 + ["9"] * 4
    advantages, raw, metadata = compute_group_normalized_rewards(exact_match, responses, truths, 4, 1e-6, False)
    assert raw.tolist() == [1, 0, 0, 1, 0, 0, 0, 0]
    assert advantages.tolist() == [0.5, -0.5, -0.5, 0.5, 0, 0, 0, 0]
    assert metadata["reward_mean"] == 0.25
    assert metadata["format_reward_mean"] == 0.75
    assert metadata["constant_group_fraction"] == 0.5
    assert (metadata["reward_min"], metadata["reward_max"]) == (0.0, 1.0)


def test_a_batch_of_zero_rewards_is_a_batch():
    advantages, raw, metadata = compute_group_normalized_rewards(exact_match, ["x"] * 4, ["4"] * 4, 2, 1e-6, True)
    assert advantages.tolist() == raw.tolist() == [0.0] * 4
    assert metadata["constant_group_fraction"] == 1.0


def test_ground_truths_must_be_repeated():
    with pytest.raises(ValueError, match="4 rollout_responses but 2"):
        compute_group_normalized_rewards(exact_match, ["x"] * 4, ["4"] * 2, 2, 1e-6, True)
