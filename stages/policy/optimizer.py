"""AdamW or RMSprop, with a schedule that is a pure function of the step, so that nothing but moments needs saving."""

from __future__ import annotations

import math

import torch
from torch import nn

from stages.policy.sharding import whole


def make_optimizer(
    model: nn.Module, betas: tuple[float, float], weight_decay: float, kind: str = "adamw"
) -> torch.optim.Optimizer:
    """AdamW, fused, or RMSprop, which keeps one moment instead of two and has no `betas`. The learning rate comes with
    each step."""
    if kind == "rmsprop":
        return torch.optim.RMSprop(model.parameters(), weight_decay=weight_decay)
    return torch.optim.AdamW(model.parameters(), betas=betas, weight_decay=weight_decay, fused=True)


def scheduled(step: int, total: int, learning_rate: float, schedule: str, warmup_fraction: float) -> float:
    """The learning rate of optimiser step `step` (from 0) of `total`: linear warm-up, then the schedule down to 0."""
    warmup = math.ceil(warmup_fraction * total)
    if step < warmup:
        return learning_rate * (step + 1) / warmup
    left = 1 - (step - warmup) / max(1, total - warmup)
    return learning_rate * SCHEDULES[schedule](left)


SCHEDULES = {
    "constant": lambda left: 1.0,
    "linear": lambda left: left,
    "cosine": lambda left: 0.5 * (1 - math.cos(math.pi * left)),
}


def step_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, learning_rate: float, max_norm: float) -> float:
    """Clip, update, clear gradients. Returns the gradient norm before clipping, over all processes.

    A non-finite gradient is not applied: the norm is returned as it is and weights and moments stay.
    """
    norm = whole(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)).item()
    if math.isfinite(norm):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm
