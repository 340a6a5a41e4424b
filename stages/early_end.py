"""When a training run has failed. Failing is a data point: the run ends early, says why, and the sweep goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stages.config import EarlyEnd

Row = Mapping[str, Any]


def failure(metrics: Sequence[Row], fresh: int, rules: EarlyEnd) -> str:
    """Why the run should end after its newest `fresh` METRICS rows, or "" where it should go on."""
    newest = metrics[len(metrics) - fresh :]
    for row in newest:
        if told := not_finite(row):
            return told
        for name, limit in (("gradient_norm", rules.gradient_norm_above), ("ratio_mean", rules.ratio_mean_above)):
            if limit is not None and (row.get(name) or 0.0) > limit:
                return f"{name} is {row[name]:.4g}, above {limit:g}, at step {row['step']}"
    return _collapse(metrics, rules.token_entropy_below) or _no_reward(metrics, fresh, rules.zero_reward_steps)


def not_finite(row: Row) -> str:
    """Which measure of a METRICS row is infinite or no number, or "": what follows from it would be no result."""
    for name in ("loss", "gradient_norm", "token_entropy", "sampler_gap", "perplexity"):
        if row.get(name) is not None and not math.isfinite(row[name]):
            return f"{name} is {row[name]} at step {row['step']}"
    return ""


def unsound(rows: Sequence[Row]) -> str:
    """What is infinite or no number in sampled ROLLOUTS rows, or "": then every text is as likely as any other."""
    for row in rows:
        for name, values in (
            ("sampler_log_probs", row["sampler_log_probs"]),
            ("mean_token_entropy", [row["mean_token_entropy"]]),
        ):
            broken = next((value for value in values if value is not None and not math.isfinite(value)), None)
            if broken is not None:
                return f"{name} is {broken} in a response to example {row['example_id']}"
    return ""


def _collapse(metrics: Sequence[Row], limit: float | None) -> str:
    """Of the newest tokens whose entropy was measured: of rollouts, or, where training samples none, of a validation,
    which then ends the run one step after it."""
    row = next((row for row in reversed(metrics) if row.get("token_entropy") is not None), None)
    if limit is None or row is None or row["token_entropy"] >= limit:
        return ""
    told = f"token_entropy is {row['token_entropy']:.4g} nats, below {limit:g}, at step {row['step']}"
    return f"{told}: the policy collapsed"


def _no_reward(metrics: Sequence[Row], fresh: int, steps: int | None) -> str:
    """Of steps of the run: the `fresh` optimiser steps on one batch of rollouts share its reward."""
    rewards = [row["reward"] for row in metrics if row["kind"] == "train" and row.get("reward") is not None][::fresh]
    if steps is None or len(rewards) < steps or any(rewards[-steps:]):
        return ""
    return f"no response of the last {steps} steps was rewarded: there is nothing to learn from"
