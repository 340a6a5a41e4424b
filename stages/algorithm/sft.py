"""Supervised finetuning: the negative log-likelihood of response tokens."""

from torch import Tensor

from stages.algorithm.reductions import masked_normalize, masked_sum


def sft_loss(policy_log_probs: Tensor, response_mask: Tensor, num_tokens: int) -> Tensor:
    """One micro-batch's share of the token-mean NLL of its optimiser batch, a scalar in nats per token.

    `policy_log_probs` and `response_mask` are [b, T], aligned to labels; `num_tokens` counts the response
    tokens of the whole optimiser batch, over all micro-batches and ranks. Summed over micro-batches it is
    the mean over tokens, so every token weighs the same however the batch is split. A micro-batch without
    response tokens gives 0.
    """
    return -masked_sum(policy_log_probs, response_mask) / max(num_tokens, 1)


def sft_microbatch_train_step(
    policy_log_probs: Tensor,
    response_mask: Tensor,
    gradient_accumulation_steps: int,
    normalize_constant: float = 1.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Sum of NLL over each response / constant, mean over responses, / accumulation steps, backward().

    `policy_log_probs` and `response_mask` are [B, T]. Gradients accumulate and are never zeroed here.
    Returns the scaled loss, a scalar without graph, and metadata: `num_response_tokens` and `nll_sum`, in
    nats.
    """
    nll = masked_normalize(-policy_log_probs, response_mask, dim=-1, normalize_constant=normalize_constant)
    loss = nll.mean() / gradient_accumulation_steps
    loss.backward()
    metadata = {
        "num_response_tokens": response_mask.bool().sum(),
        "nll_sum": -masked_sum(policy_log_probs.detach(), response_mask),
    }
    return loss.detach(), metadata
