"""The DPO loss of one preference pair, from two models and a tokenizer."""

import torch
from torch import Tensor, nn

from stages.algorithm.dpo import dpo_loss
from stages.algorithm.log_probs import get_response_log_probs
from stages.policy.packing import Tokenizer, encode_document


def compute_per_instance_dpo_loss(
    lm: nn.Module,
    lm_ref: nn.Module,
    tokenizer: Tokenizer,
    beta: float,
    prompt: str,
    response_chosen: str,
    response_rejected: str,
) -> Tensor:
    """DPO loss (arXiv 2305.18290, eq. 7), a scalar on the device of `lm`; the models may sit on two devices.

    Both responses are put into the Alpaca template and closed by EOS. Log-probabilities are summed over the
    whole document: the prompt's share is the same for both responses and cancels.
    """
    documents = [encode_document(tokenizer, prompt, text) for text in (response_chosen, response_rejected)]
    policy = [_log_prob_of(lm, ids) for ids in documents]
    with torch.no_grad():
        reference = [_log_prob_of(lm_ref, ids).to(policy[0].device) for ids in documents]
    return dpo_loss(*policy, *reference, beta)


def _log_prob_of(model: nn.Module, ids: list[int]) -> Tensor:
    tokens = torch.tensor([ids], device=next(model.parameters()).device)
    return get_response_log_probs(model, tokens[:, :-1], tokens[:, 1:])["log_probs"].sum()
