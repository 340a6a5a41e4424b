"""What a sampler cannot tell of its samples, from the trainer, which has the same weights: no gradient, no step."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stages.config import Grpo
from stages.policy.processes import dealt, gather
from stages.policy.scoring import make_sequences, score, template_pays
from stages.policy.units import Unit, micro_batches, units_of

Row = dict[str, Any]


@torch.no_grad()
def score_rollouts(model: PreTrainedModel, rows: list[Row], settings: Any, old: bool = False) -> None:
    """Fill `mean_token_entropy` (nats) of ROLLOUTS rows where the sampler did not, and `old_log_probs` where asked to.

    Before the optimiser moves the weights that sampled. Every process is given the same rows and computes its share.
    Where nothing is missing, nothing is computed.
    """
    spoken = [row for row in rows if row["num_response_tokens"]]
    untold = any(row["mean_token_entropy"] is None for row in spoken)
    for row in rows if old else ():
        row["old_log_probs"] = []
    places = {id(row): place for place, row in enumerate(spoken)}
    scored = []
    for units, weight in dealt(_parts(spoken, settings)) if untold or old else ():
        log_probs, entropy = _scores(model, units, settings, untold)
        found = zip(log_probs.tolist(), entropy.sum(-1).tolist(), strict=True)
        here = [places[id(row)] for unit in units for row in unit]
        scored += zip(here, found, strict=True) if weight else []
    for place, (log_probs, nats) in itertools.chain(*gather(scored)):
        row = spoken[place]
        if old:
            row["old_log_probs"] = log_probs[: row["num_response_tokens"]]
        if row["mean_token_entropy"] is None:
            row["mean_token_entropy"] = nats / row["num_response_tokens"]


def _parts(rows: list[Row], settings: Any) -> list[list[Unit]]:
    """Micro-batches of the size that the stage trains with. Groups of GRPO share the pass through their prompt."""
    if isinstance(settings, Grpo):
        return micro_batches(units_of(rows, settings), settings.micro_train_batch_size)
    longest = max((len(row["prompt_token_ids"]) + row["num_response_tokens"] for row in rows), default=1)
    return micro_batches([[row] for row in rows], settings.micro_batch_tokens // longest)


def _scores(model: PreTrainedModel, units: list[Unit], settings: Any, with_entropy: bool) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies [B, T], as a sampler tells them: of the tempered distribution, at temperature 0 of the
    plain one. Entropies that nobody asked for are 0."""
    sequences = make_sequences(
        [unit[0]["prompt_token_ids"] for unit in units],
        [row["response_token_ids"] for unit in units for row in unit],
        model.device,
    )
    pays = isinstance(settings, Grpo) or template_pays(model, sequences)
    log_probs, entropy = score(
        model,
        sequences,
        temperature=settings.sampling_temperature or 1.0,
        shared=settings.share_prompts and pays,
        with_entropy=with_entropy,
    )
    return log_probs, torch.zeros_like(log_probs) if entropy is None else entropy
