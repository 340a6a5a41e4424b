"""Direct Preference Optimization (Rafailov et al. 2023, arXiv 2305.18290, eq. 7)."""

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
