"""Preference pairs as tokens, and their log-probabilities, which is all that DPO sees of a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from stages.algorithm.dpo import dpo_loss
from stages.algorithm.log_probs import get_response_log_probs
from stages.policy.packing import Tokenizer, encode_document
from stages.policy.processes import count, dealt, gather
from stages.policy.scoring import make_sequences, score
from stages.policy.shared_attention import supported


@dataclass(frozen=True)
class Pair:
    """Two documents in the Alpaca template, as tokens: what both begin with, and how each goes on from there.

    The shared beginning is at least the template with the prompt. Its log-probability is the same in both documents and
    cancels in DPO, so that it need not be scored; either continuation ends in EOS and is never empty.
    """

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]

    def __len__(self) -> int:
        """Tokens of the longer document."""
        return len(self.prompt) + max(len(self.chosen), len(self.rejected))


def encode_pair(tokenizer: Tokenizer, prompt: str, chosen: str, rejected: str) -> Pair:
    better, worse = (encode_document(tokenizer, prompt, text) for text in (chosen, rejected))
    most = min(len(better), len(worse)) - 1
    shared = next((at for at in range(most) if better[at] != worse[at]), most)
    return Pair(better[:shared], better[shared:], worse[shared:])


def pair_log_probs(model: PreTrainedModel, pairs: Sequence[Pair], share: bool) -> Tensor:
    """Log-probabilities [N, 2] in nats of each pair's chosen and rejected continuation, with gradients.

    With `share`, and where the architecture can, the shared beginning goes through the model once for both.
    """
    continuations = [tokens for pair in pairs for tokens in (pair.chosen, pair.rejected)]
    sequences = make_sequences([pair.prompt for pair in pairs], continuations, model.device)
    log_probs, _ = score(model, sequences, temperature=1.0, shared=share and supported(model))
    return log_probs.sum(-1).view(-1, 2)


def micro_batches(pairs: Sequence[Pair], budget: int) -> list[list[int]]:
    """Places of `pairs` in parts that hold at most `budget` tokens each with their padding, alike lengths together."""
    parts: list[list[int]] = [[]]
    for place in sorted(range(len(pairs)), key=lambda place: len(pairs[place])):
        if parts[-1] and 2 * (len(parts[-1]) + 1) * len(pairs[place]) > budget:
            parts.append([])
        parts[-1].append(place)
    return parts


@torch.no_grad()
def all_log_probs(
    model: PreTrainedModel,
    pairs: Sequence[Pair],
    budget: int,
    share: bool,
    advance: Callable[[int], None] = lambda done: None,
) -> list[list[float]]:
    """`pair_log_probs` of many pairs, [[chosen, rejected], ...] in their order, on every process.

    `advance` is told about how many pairs are done, by all processes, after every micro-batch.
    """
    found: list[tuple[int, list[float]]] = []
    for part, weight in dealt(micro_batches(pairs, budget)):
        values = pair_log_probs(model, [pairs[place] for place in part], share).tolist()
        found += zip(part, values, strict=True) if weight else ()
        advance(len(part) * count() if weight else 0)
    return [value for _, value in sorted(scored for one in gather(found) for scored in one)]


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
