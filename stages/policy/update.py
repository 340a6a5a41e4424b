"""One optimiser step of policy gradient over a batch of rollouts, in micro-batches of any size.

The gradient is that of the whole batch however it is split: denominators count the whole batch, and responses whose
signal (advantage, or raw reward without a baseline) is zero throughout a unit are left out of the forward pass, as they
would add exactly zero to the gradient; they still count in the denominators. A batch in which nothing has a signal is
skipped: the optimiser is not called, so that neither its momentum nor weight decay moves the policy where nothing was
learned. It counts as a step all the same, in `step` and in the schedule, and its METRICS row says `skipped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stages.algorithm.policy_gradient import (
    SURROGATES,
    aggregate,
    compute_policy_gradient_loss,
    truncated_importance_weights,
)
from stages.config import Grpo
from stages.policy.optimizer import scheduled, step_optimizer
from stages.policy.processes import dealt, gather, totals
from stages.policy.scoring import Sequences, make_sequences, score
from stages.policy.units import Unit, micro_batches, units_of

Row = dict[str, Any]


def needs_old_log_probs(settings: Grpo) -> bool:
    """Whether to score a rollout batch before training on it: where the policy moves between steps on one batch.

    At the only step on it the policy's own log-probs are the old ones, and free: every ratio is exactly 1.
    """
    used = settings.sampler_ratio_cap is not None or "old_log_probs" in SURROGATES[settings.loss_type].needs
    return used and settings.n_train_steps_per_rollout_batch > 1


def signal_of(row: Row, settings: Grpo) -> float:
    """What multiplies the row's log-probabilities: zero means that the row adds nothing to the gradient."""
    return row["reward"] if "raw_rewards" in SURROGATES[settings.loss_type].needs else row["advantage"]


def teaches(row: Row, settings: Grpo) -> bool:
    """Whether the row adds anything to the gradient."""
    return bool(signal_of(row, settings) and row["num_response_tokens"])


@dataclass(frozen=True)
class Batch:
    """One micro-batch as tensors. Per response [B, 1]: rewards, advantages. Per token [B, T]: old and sampler's."""

    sequences: Sequences
    rewards: Tensor
    advantages: Tensor
    old_log_probs: Tensor | None
    sampler_log_probs: Tensor


def to_tensors(units: list[Unit], device: torch.device) -> Batch:
    rows = [row for unit in units for row in unit]
    sequences = make_sequences(
        [unit[0]["prompt_token_ids"] for unit in units], [row["response_token_ids"] for row in rows], device
    )
    width = sequences.response_ids.shape[1]
    has_old = rows[0].get("old_log_probs") is not None
    return Batch(
        sequences=sequences,
        rewards=torch.tensor([[row["reward"]] for row in rows], device=device),
        advantages=torch.tensor([[row["advantage"]] for row in rows], device=device),
        old_log_probs=per_token([row["old_log_probs"] for row in rows], width, device) if has_old else None,
        sampler_log_probs=per_token([row["sampler_log_probs"] for row in rows], width, device),
    )


def per_token(values: Sequence[Sequence[float]], width: int, device: torch.device) -> Tensor:
    """Ragged floats as [B, width], 0 at padding."""
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in values], device=device)


def update(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, rows: Sequence[Row], settings: Grpo, step: int
) -> Row:
    """Accumulate the gradient of the batch `rows`, clip it, take one optimiser step at `step`'s learning rate.

    Returns METRICS columns; none depends on how the batch is split. Loss and clip fraction are those of the whole
    batch. Ratios, and the comparison with the sampler, are over the response tokens that have a signal, as the others
    need not go through the model.
    """
    num_tokens = sum(row["num_response_tokens"] for row in rows)
    live = [unit for unit in units_of(rows, settings) if any(teaches(row, settings) for row in unit)]
    loss, seen = 0.0, Seen()
    for units, weight in dealt(micro_batches(live, settings.micro_train_batch_size)):
        batch = to_tensors(units, model.device)
        mask = batch.sequences.response_mask
        log_probs, _ = score(
            model,
            batch.sequences,
            temperature=settings.sampling_temperature,
            shared=settings.share_prompts,
        )
        old = log_probs.detach() if batch.old_log_probs is None else batch.old_log_probs
        per_token_loss, facts = compute_policy_gradient_loss(
            log_probs,
            settings.loss_type,
            raw_rewards=batch.rewards,
            advantages=batch.advantages,
            old_log_probs=old,
            cliprange=settings.cliprange,
            response_mask=mask,
            cliprange_high=settings.cliprange_high,
        )
        if settings.sampler_ratio_cap is not None:
            weights, cut = truncated_importance_weights(old, batch.sampler_log_probs, settings.sampler_ratio_cap)
            per_token_loss = per_token_loss * weights
            facts |= {"sampler_weight": weights, "sampler_capped": cut}
        partial = weight * aggregate(
            per_token_loss,
            mask,
            settings.length_normalization,
            num_sequences=len(rows),
            num_tokens=num_tokens,
            normalize_constant=settings.normalize_constant or settings.sampling_max_tokens,
        )
        partial.backward()
        loss += partial.item()
        if weight:
            taught = torch.tensor([[teaches(row, settings)] for unit in units for row in unit], device=mask.device)
            seen.add(mask & taught, log_probs.detach(), batch, facts)
    rate = scheduled(
        step, settings.n_grpo_steps, settings.learning_rate, settings.lr_schedule, settings.warmup_fraction
    )
    norm = step_optimizer(model, optimizer, rate, settings.max_grad_norm) if live else 0.0
    taken = {"loss": sum(gather(loss)), "gradient_norm": norm, "learning_rate": rate, "skipped": int(not live)}
    return taken | nothing_clipped(settings) | seen.columns(num_tokens)


def nothing_clipped(settings: Grpo) -> Row:
    """What a loss that clips tells of a batch without a signal; nothing of one that does not clip."""
    return {"clip_fraction": 0.0} if "cliprange" in SURROGATES[settings.loss_type].needs else {}


# What update's facts are called as METRICS columns.
COLUMNS = {
    "ratio": "ratio_mean",
    "clipped": "clip_fraction",
    "sampler_weight": "sampler_weight",
    "sampler_capped": "sampler_capped",
}


class Seen:
    """Sums over the response tokens with a signal, here; `columns` is about those of all processes."""

    def __init__(self) -> None:
        self.tokens = 0
        self.sums: dict[str, float] = {}
        self.ratio_max: float | None = None

    def add(self, mask: Tensor, log_probs: Tensor, batch: Batch, facts: dict[str, Tensor]) -> None:
        self.tokens += int(mask.sum())
        self._sum("sampler_gap", (log_probs - batch.sampler_log_probs).abs()[mask])
        if "ratio" in facts and mask.any():
            self.ratio_max = max(self.ratio_max or 0.0, facts["ratio"][mask].max().item())
        for name, column in COLUMNS.items():
            if name in facts:
                self._sum(column, facts[name][mask])

    def _sum(self, name: str, values: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + values.double().sum().item()

    def columns(self, num_tokens: int) -> Row:
        """Means; of clipping over all `num_tokens` of the batch: a token without a signal has a loss of 0 that no
        clipping changes, though its ratio is not known."""
        tokens = sum(gather(self.tokens))
        sums = totals(self.sums)
        means = {name: total / (num_tokens if name == "clip_fraction" else tokens) for name, total in sums.items()}
        highest = [value for value in gather(self.ratio_max) if value is not None]
        return means | ({"ratio_max": max(highest)} if highest else {})
