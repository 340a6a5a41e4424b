"""Group-relative advantages (DeepSeekMath, arXiv 2402.03300, section 4.1; Dr. GRPO, arXiv 2503.20783).

    A_i = (r_i - mean(r)) / (std(r) + advantage_eps)      within the G responses to one prompt

Rewards lie flat and blocked: responses 0..G-1 answer the first prompt, G..2G-1 the second, and so on.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Each entry maps rewards [P, G] to the baseline b, broadcastable to [P, G], that is subtracted from them.
BASELINES: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda rewards: torch.zeros_like(rewards),
    "group_mean": lambda rewards: rewards.mean(dim=-1, keepdim=True),
}


def group_advantages(
    rewards: Tensor,
    group_size: int,
    *,
    baseline: str = "group_mean",
    advantage_eps: float = 1e-6,
    normalize_by_std: bool = True,
) -> Tensor:
    """Advantages [B] of rewards [B], B a multiple of `group_size`.

    The standard deviation is the unbiased one (G - 1 in the denominator). A group whose rewards are all
    equal says nothing about which response was better: under `group_mean` its advantages are exactly 0,
    found by max == min, because the float32 mean of eight 0.1 is not 0.1 and the difference over std + eps
    would be large; under `none` they are the rewards, unscaled. A group of one is such a group. Raises
    ValueError for an unknown baseline, a batch that does not divide into groups, and rewards that are not
    finite.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline {baseline!r} is unknown; choose one of {', '.join(BASELINES)}")
    _check_rewards(rewards, group_size)
    groups = rewards.float().view(-1, group_size)
    centred = groups - BASELINES[baseline](groups)
    constant = groups.amax(dim=-1, keepdim=True) == groups.amin(dim=-1, keepdim=True)
    if baseline != "none":
        centred = centred.masked_fill(constant, 0.0)
    if normalize_by_std and group_size > 1:
        scale = groups.std(dim=-1, keepdim=True) + advantage_eps
        centred = centred / scale.masked_fill(constant, 1.0)
    return centred.flatten()


def compute_group_normalized_rewards(
    reward_fn: Callable[[str, str], dict[str, float]],
    rollout_responses: Sequence[str],
    repeated_ground_truths: Sequence[str],
    group_size: int,
    advantage_eps: float,
    normalize_by_std: bool,
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """Grade a flat batch of B rollouts and normalise the rewards within each group.

    `reward_fn(response, ground_truth)` returns a dict with `reward`, and usually `format_reward` and
    `answer_reward`; `repeated_ground_truths` repeats each answer `group_size` times. Returns advantages
    [B], raw rewards [B] (float32) and metadata: mean, std, min, max of the reward, the mean of every other
    reward the function returned, and `constant_group_fraction`, the share of groups without a learning
    signal.
    """
    if len(rollout_responses) != len(repeated_ground_truths):
        raise ValueError(
            f"{len(rollout_responses)} rollout_responses but {len(repeated_ground_truths)} "
            "repeated_ground_truths; each ground truth must be repeated group_size times"
        )
    graded = [
        reward_fn(response, truth) for response, truth in zip(rollout_responses, repeated_ground_truths, strict=True)
    ]
    rewards = torch.tensor([float(row["reward"]) for row in graded], dtype=torch.float32)
    advantages = group_advantages(rewards, group_size, advantage_eps=advantage_eps, normalize_by_std=normalize_by_std)
    return advantages, rewards, _reward_statistics(graded, rewards, group_size)


def _reward_statistics(graded: list[dict[str, float]], rewards: Tensor, group_size: int) -> dict[str, float]:
    groups = rewards.view(-1, group_size)
    parts = [name for name in graded[0] if name != "reward"]
    return {
        "reward_mean": rewards.mean().item(),
        "reward_std": rewards.std(correction=0).item(),
        "reward_min": rewards.min().item(),
        "reward_max": rewards.max().item(),
        "constant_group_fraction": (groups.amax(dim=-1) == groups.amin(dim=-1)).float().mean().item(),
        **{f"{name}_mean": sum(float(row[name]) for row in graded) / len(graded) for name in parts},
    }


def _check_rewards(rewards: Tensor, group_size: int) -> None:
    if rewards.dim() != 1:
        raise ValueError(f"rewards must be flat, [batch], got shape {tuple(rewards.shape)}")
    if group_size < 1 or rewards.numel() == 0 or rewards.numel() % group_size:
        raise ValueError(f"{rewards.numel()} rewards do not divide into groups of group_size={group_size}")
    bad = (~torch.isfinite(rewards)).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"rewards must be finite; rollout {bad[0]} has {rewards[bad[0]].item()} ({len(bad)} such in all)"
        )
