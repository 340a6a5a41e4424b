"""Direct Preference Optimization (Rafailov et al. 2023, arXiv 2305.18290, eq. 7)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def dpo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float,
) -> Tensor:
    """-log sigmoid(beta [log pi(y_w)/pi_ref(y_w) - log pi(y_l)/pi_ref(y_l)]), one value per pair.

    Each argument holds summed log-probabilities in nats, one per pair, all of one shape, which is that of
    the result. The reference is a constant. Sums may run over prompt and response: the prompt's share
    cancels between chosen and rejected.
    """
    margin = implicit_reward_margin(
        policy_chosen, policy_rejected, reference_chosen.detach(), reference_rejected.detach(), beta
    )
    return -F.logsigmoid(margin)


def implicit_reward_margin(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float,
) -> Tensor:
    """r(y_w) - r(y_l) with the implicit reward r(y) = beta log pi(y)/pi_ref(y); positive: ranked right."""
    return beta * ((policy_chosen - reference_chosen) - (policy_rejected - reference_rejected))


def preference_metrics(policy: Tensor, reference: Tensor, beta: float) -> dict[str, float]:
    """What a batch of pairs shows, from summed log-probabilities [N, 2] of their chosen and rejected responses.

    `loss`, mean over pairs; `preference_accuracy`, the share whose implicit reward margin is above 0;
    `ranking_accuracy`, the share whose chosen response the policy itself finds likelier, which needs no reference and
    favours short ones; ties count half in both. Means over pairs, in nats: `reward_margin`, `chosen_log_prob`,
    `rejected_log_prob`.
    """
    columns = (*policy.unbind(-1), *reference.unbind(-1))
    margins = implicit_reward_margin(*columns, beta)
    return {
        "loss": dpo_loss(*columns, beta).mean().item(),
        "preference_accuracy": _share_above_zero(margins),
        "ranking_accuracy": _share_above_zero(policy[:, 0] - policy[:, 1]),
        "reward_margin": margins.mean().item(),
        "chosen_log_prob": policy[:, 0].mean().item(),
        "rejected_log_prob": policy[:, 1].mean().item(),
    }


def _share_above_zero(values: Tensor) -> float:
    return ((torch.sign(values) + 1) / 2).mean().item()
