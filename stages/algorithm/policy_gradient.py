"""Policy-gradient losses: surrogate (what a token contributes) x aggregation (how tokens become one scalar).

The scalar is a loss only in name: its gradient is the policy gradient, its value says nothing about
progress. Shapes throughout: log-probabilities and masks [B, T], aligned to labels; rewards and advantages
[B, 1], one number per response, or [B, T]. Adding a surrogate or an aggregation is one function and one
entry in its dict.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from stages.algorithm.reductions import masked_mean, masked_sum

PerTokenLoss = tuple[Tensor, dict[str, Tensor]]


# -- surrogates ------------------------------------------------------------------------------------------


def compute_naive_policy_gradient_loss(raw_rewards_or_advantages: Tensor, policy_log_probs: Tensor) -> Tensor:
    """REINFORCE per token: -A_t log pi(o_t | q, o_<t), [B, T] (Williams 1992; Sutton et al. 1999).

    With raw rewards it is the estimator without a baseline, with advantages the one with.
    """
    _check_per_response("raw_rewards_or_advantages", raw_rewards_or_advantages, policy_log_probs)
    return -raw_rewards_or_advantages * policy_log_probs


def compute_grpo_clip_loss(
    advantages: Tensor,
    policy_log_probs: Tensor,
    old_log_probs: Tensor,
    cliprange: float,
    cliprange_high: float | None = None,
) -> PerTokenLoss:
    """-min(rho A, clip(rho, 1 - eps, 1 + eps) A), rho = pi / pi_old (PPO, arXiv 1707.06347, eq. 7).

    `cliprange_high` replaces eps on the upper side alone (clip-higher; DAPO, arXiv 2503.14476, eq. 10).

    The minimum is over the products: for A < 0 it keeps the unclipped branch when rho grows, so a token
    that became likelier against its advantage is still pushed down. Metadata [B, T]: `ratio`, and
    `clipped`, true where the clipped branch was strictly smaller, which is where the gradient is 0.
    """
    _check_per_response("advantages", advantages, policy_log_probs)
    return _clipped(_ratio(policy_log_probs, old_log_probs), advantages, cliprange, cliprange_high)


def _clipped(ratio: Tensor, advantages: Tensor, low: float, high: float | None) -> PerTokenLoss:
    free = ratio * advantages
    bounded = ratio.clamp(1 - low, 1 + (low if high is None else high)) * advantages
    return -torch.minimum(free, bounded), {"ratio": ratio.detach(), "clipped": (bounded < free).detach()}


def compute_grpo_no_clip_loss(advantages: Tensor, policy_log_probs: Tensor, old_log_probs: Tensor) -> PerTokenLoss:
    """-rho A per token, rho = pi / pi_old: importance weighting alone (Degris et al. 2012).

    Metadata [B, T]: `ratio`.
    """
    _check_per_response("advantages", advantages, policy_log_probs)
    ratio = _ratio(policy_log_probs, old_log_probs)
    return -ratio * advantages, {"ratio": ratio.detach()}


def compute_gspo_loss(
    advantages: Tensor,
    policy_log_probs: Tensor,
    old_log_probs: Tensor,
    cliprange: float,
    response_mask: Tensor,
    cliprange_high: float | None = None,
) -> PerTokenLoss:
    """The clipped surrogate of one ratio per response (GSPO, arXiv 2507.18071, eq. 5).

    s = (pi(o|q) / pi_old(o|q))^(1/|o|), the geometric mean of the token ratios.
    The response's value stands at each of its tokens, so that masked_mean over tokens gives it back. Useful clip
    ranges are far smaller than per-token ones (the paper: 3e-4 and 4e-4). Metadata as in compute_grpo_clip_loss.
    """
    _check_per_response("advantages", advantages, policy_log_probs)
    change = masked_sum(policy_log_probs - old_log_probs.detach(), response_mask, dim=-1)
    mean_change = change / response_mask.bool().sum(-1).clamp(min=1)
    ratio = torch.exp(mean_change.clamp(max=20.0))[:, None].expand_as(policy_log_probs)
    return _clipped(ratio, advantages, cliprange, cliprange_high)


def compute_cispo_loss(
    advantages: Tensor,
    policy_log_probs: Tensor,
    old_log_probs: Tensor,
    cliprange: float,
    cliprange_high: float | None = None,
) -> PerTokenLoss:
    """-sg(min(rho, 1 + eps)) A log pi: clip the weight, never the token (CISPO; MiniMax-M1, arXiv 2506.13585, eq. 4).

    Every token keeps a gradient. There is no lower bound, as in the paper; `cliprange` is the upper one unless
    `cliprange_high` is given. Metadata: `ratio`, and `clipped` where the weight was cut.
    """
    _check_per_response("advantages", advantages, policy_log_probs)
    ratio = _ratio(policy_log_probs, old_log_probs).detach()
    limit = 1 + (cliprange if cliprange_high is None else cliprange_high)
    return -ratio.clamp(max=limit) * advantages * policy_log_probs, {"ratio": ratio, "clipped": ratio > limit}


def _no_baseline(policy_log_probs: Tensor, raw_rewards: Tensor) -> PerTokenLoss:
    return compute_naive_policy_gradient_loss(raw_rewards, policy_log_probs), {}


def _reinforce_with_baseline(policy_log_probs: Tensor, advantages: Tensor) -> PerTokenLoss:
    return compute_naive_policy_gradient_loss(advantages, policy_log_probs), {}


class Surrogate(NamedTuple):
    """`loss` is called with policy_log_probs and the arguments named in `needs` and `takes`, all by keyword.

    What it needs must be given; what it takes may be None.
    """

    loss: Callable[..., PerTokenLoss]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


_CLIPPED = ("advantages", "old_log_probs", "cliprange")

SURROGATES: dict[str, Surrogate] = {
    "no_baseline": Surrogate(_no_baseline, ("raw_rewards",)),
    "reinforce_with_baseline": Surrogate(_reinforce_with_baseline, ("advantages",)),
    "grpo_clip": Surrogate(compute_grpo_clip_loss, _CLIPPED, ("cliprange_high",)),
    "grpo_no_clip": Surrogate(compute_grpo_no_clip_loss, ("advantages", "old_log_probs")),
    "gspo": Surrogate(compute_gspo_loss, (*_CLIPPED, "response_mask"), ("cliprange_high",)),
    "cispo": Surrogate(compute_cispo_loss, _CLIPPED, ("cliprange_high",)),
}


def compute_policy_gradient_loss(
    policy_log_probs: Tensor,
    loss_type: str,
    raw_rewards: Tensor | None = None,
    advantages: Tensor | None = None,
    old_log_probs: Tensor | None = None,
    cliprange: float | None = None,
    response_mask: Tensor | None = None,
    cliprange_high: float | None = None,
) -> PerTokenLoss:
    """The per-token loss [B, T] of one of SURROGATES, with its metadata.

    With `response_mask` [B, T], log-probabilities outside it are replaced by 0 first: whatever stands in the
    padding, NaN included, shows neither in the loss nor in the metadata, where the ratio is then 1.
    Raises ValueError for an unknown loss type and for an argument that the loss type needs and did not get.
    """
    surrogate = _choose("loss_type", loss_type, SURROGATES)
    if response_mask is not None:
        policy_log_probs = _blank(policy_log_probs, response_mask)
        old_log_probs = None if old_log_probs is None else _blank(old_log_probs, response_mask)
    given = {
        "raw_rewards": raw_rewards,
        "advantages": advantages,
        "old_log_probs": old_log_probs,
        "cliprange": cliprange,
        "response_mask": response_mask,
        "cliprange_high": cliprange_high,
    }
    missing = [name for name in surrogate.needs if given[name] is None]
    if missing:
        raise ValueError(f"loss_type {loss_type!r} needs {', '.join(missing)}; got None")
    arguments = {name: given[name] for name in (*surrogate.needs, *surrogate.takes)}
    return surrogate.loss(policy_log_probs=policy_log_probs, **arguments)


# -- the sampler's own distribution ----------------------------------------------------------------------


def truncated_importance_weights(old_log_probs: Tensor, sampler_log_probs: Tensor, cap: float) -> tuple[Tensor, Tensor]:
    """min(pi_old / pi_sampler, cap) per token, a constant, and where the cap cut; both [B, T] (Yao et al. 2025, "Your
    Efficient RL Framework Secretly Brings You Off-Policy RL Training").

    Rollouts come from an engine whose kernels and precision are not the trainer's, hence from another distribution.
    A token's loss times this weight has the expectation it would have under the trainer's policy at rollout time; the
    cap bounds the variance that rare tokens bring. Equal log-probs give exactly 1.
    """
    if old_log_probs.shape != sampler_log_probs.shape:
        raise ValueError(
            f"old_log_probs has shape {tuple(old_log_probs.shape)}, "
            f"sampler_log_probs {tuple(sampler_log_probs.shape)}; score the same positions with both"
        )
    ratio = torch.exp((old_log_probs - sampler_log_probs).detach())
    return ratio.clamp(max=cap), ratio > cap


# -- aggregations ----------------------------------------------------------------------------------------
#
# A micro-batch contributes a partial sum of the loss of its whole optimiser batch. The denominators are
# those of the batch, so the partial sums of any split add up to the same loss and the same gradient.
# What a dead response (advantage 0) or an empty one (no token) does to them:
#
#   masked_mean, masked_normalize   both count in num_sequences and dilute the step, as they do in the
#                                   expectation over responses that the mean estimates;
#   token_mean                      a dead response dilutes by its length, an empty one not at all.
#
# A loop that leaves dead responses out of the forward pass for speed passes the denominators of the full
# batch and gets the same gradient; with the denominators of what is left, steps grow as more are dead.


def _masked_mean(per_token_loss: Tensor, mask: Tensor, *, num_sequences: int, **_: object) -> Tensor:
    lengths = mask.bool().sum(dim=-1).clamp(min=1)  # an empty response contributes 0 / 1, not 0 / 0
    return (masked_sum(per_token_loss, mask, dim=-1) / lengths).sum() / num_sequences


def _masked_normalize(
    per_token_loss: Tensor, mask: Tensor, *, num_sequences: int, normalize_constant: float | None, **_: object
) -> Tensor:
    if normalize_constant is None or normalize_constant <= 0:
        raise ValueError(f"masked_normalize needs a positive normalize_constant, got {normalize_constant}")
    return masked_sum(per_token_loss, mask) / (normalize_constant * num_sequences)


def _token_mean(per_token_loss: Tensor, mask: Tensor, *, num_tokens: int, **_: object) -> Tensor:
    return masked_sum(per_token_loss, mask) / max(num_tokens, 1)


AGGREGATIONS: dict[str, Callable[..., Tensor]] = {
    "masked_mean": _masked_mean,  # 1/N sum_i 1/|o_i| sum_t: GRPO
    "masked_normalize": _masked_normalize,  # 1/N sum_i 1/constant sum_t: Dr. GRPO
    "token_mean": _token_mean,  # 1/(sum_i |o_i|) sum_i sum_t: DAPO (arXiv 2503.14476, eq. 8)
}


def aggregate(
    per_token_loss: Tensor,
    mask: Tensor,
    length_normalization: str,
    *,
    num_sequences: int,
    num_tokens: int,
    normalize_constant: float | None = None,
) -> Tensor:
    """One micro-batch's share, a scalar, of the loss of its optimiser batch.

    `per_token_loss` and `mask` are [b, T] of the micro-batch; `num_sequences` and `num_tokens` count the
    responses and the response tokens of the whole optimiser batch, over all micro-batches and all ranks.
    Summing the results (calling backward on each) gives the loss (the gradient) of the batch.
    `normalize_constant`, in tokens, is used by masked_normalize alone; one usual choice is the largest
    response length that sampling allows.
    """
    reduction = _choose("length_normalization", length_normalization, AGGREGATIONS)
    if num_sequences < 1:
        raise ValueError(f"num_sequences counts the responses of the optimiser batch, got {num_sequences}")
    return reduction(
        per_token_loss,
        mask,
        num_sequences=num_sequences,
        num_tokens=num_tokens,
        normalize_constant=normalize_constant,
    )


# -- the assignment's train step -------------------------------------------------------------------------


def grpo_microbatch_train_step(
    policy_log_probs: Tensor,
    response_mask: Tensor,
    gradient_accumulation_steps: int,
    loss_type: str,
    raw_rewards: Tensor | None = None,
    advantages: Tensor | None = None,
    old_log_probs: Tensor | None = None,
    cliprange: float | None = None,
) -> PerTokenLoss:
    """Masked mean of the loss over each response, mean over responses, / accumulation steps, backward().

    Gradients accumulate and are never zeroed here. Returns the scaled loss, a scalar without graph, and the
    surrogate's metadata, with `clip_fraction` over response tokens where the surrogate clips. It is the
    special case of `aggregate` in which every micro-batch has the same number of responses.
    """
    per_token_loss, metadata = compute_policy_gradient_loss(
        policy_log_probs, loss_type, raw_rewards, advantages, old_log_probs, cliprange, response_mask
    )
    num_sequences = policy_log_probs.shape[0] * gradient_accumulation_steps
    loss = aggregate(per_token_loss, response_mask, "masked_mean", num_sequences=num_sequences, num_tokens=0)
    loss.backward()
    if "clipped" in metadata:
        metadata["clip_fraction"] = masked_mean(metadata["clipped"].float(), response_mask).nan_to_num(nan=0.0)
    return loss.detach(), metadata


def _ratio(policy_log_probs: Tensor, old_log_probs: Tensor) -> Tensor:
    """pi / pi_old per token, computed in log space.

    The denominator is a constant: its gradient would cancel the update. The log-ratio is capped at 20
    (a ratio of 5e8), because an infinite ratio turns 0 * inf into NaN even where the clipped branch wins.
    """
    if old_log_probs.shape != policy_log_probs.shape:
        raise ValueError(
            f"old_log_probs has shape {tuple(old_log_probs.shape)}, "
            f"policy_log_probs {tuple(policy_log_probs.shape)}; score the same positions with both"
        )
    return torch.exp((policy_log_probs - old_log_probs.detach()).clamp(max=20.0))


def _blank(log_probs: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.bool(), log_probs, torch.zeros((), dtype=log_probs.dtype, device=log_probs.device))


def _check_per_response(name: str, values: Tensor, policy_log_probs: Tensor) -> None:
    """A flat [B] would broadcast along tokens, silently if B = T, mixing up the responses' rewards."""
    batch, length = policy_log_probs.shape
    if tuple(values.shape) not in {(batch, 1), (batch, length)}:
        raise ValueError(f"{name} has shape {tuple(values.shape)}, expected ({batch}, 1): one number per response")


def _choose(what: str, name: str, choices: dict):
    if name not in choices:
        raise ValueError(f"{what} {name!r} is unknown; choose one of {', '.join(choices)}")
    return choices[name]
