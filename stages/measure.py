"""From graded rollouts to one row of METRICS: the counts, means and lengths that every validation reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stages.records import DataError

Row = Mapping[str, Any]
UNGRADED = ("timeout", "too_long", "bad_reference")


def last_within(rows: Sequence[Row], column: str, limit: float) -> Row | None:
    """Of METRICS rows the last validation of `column` that had ended when a budget of `limit` seconds had."""
    validations = (row for row in rows if row["kind"] == "validation" and row["seconds"] <= limit)
    measured = [row for row in validations if math.isfinite(math.nan if row.get(column) is None else row[column])]
    return max(measured, key=lambda row: row["step"], default=None)


def sampling_metrics(rows: Sequence[Row], step: int, seconds: float) -> dict[str, Any]:
    """The METRICS row (kind validation) of ROLLOUTS rows as far as nobody needs to grade them: counts and lengths.

    `num_examples` counts questions. `token_entropy` (nats, mean over tokens) is null unless every row carries it.
    Raises DataError where there are no rows.
    """
    if not rows:
        raise DataError("no rollouts to measure; the evaluation sampled nothing")
    return {
        "step": step,
        "kind": "validation",
        "seconds": seconds,
        "num_examples": len({row["example_id"] for row in rows}),
        "num_tokens": sum(row["num_response_tokens"] for row in rows),
        "token_entropy": _token_entropy(rows),
        "length": _mean([row["num_response_tokens"] for row in rows]),
        "truncated": _mean([row["finish_reason"] == "length" for row in rows]),
    }


def validation_metrics(rows: Sequence[Row], step: int, seconds: float) -> dict[str, Any]:
    """The METRICS row (kind validation) of graded ROLLOUTS rows after `step` optimiser steps and `seconds` of run time.

    The three buckets partition the responses by what the grader rewarded; `ungraded` says how many of them have no
    verdict on the answer itself and were counted as not right. `num_examples` counts questions, the buckets count
    responses: they differ where several responses answer one question. Lengths are in tokens, and null where no
    response is of that sort. Raises DataError where there are no rows, or rows without rewards.
    """
    counts = sampling_metrics(rows, step, seconds)
    bare = [row["example_id"] for row in rows if row["answer_reward"] is None or row["format_reward"] is None]
    if bare:
        raise DataError(f"{len(bare)} of {len(rows)} rollouts have no rewards (first: {bare[0]}); grade them first")
    correct = [row for row in rows if row["answer_reward"] > 0]
    incorrect = [row for row in rows if not row["answer_reward"] > 0]
    return counts | {
        "reward": _mean([row["reward"] for row in rows]),
        "format_reward": _mean([row["format_reward"] for row in rows]),
        "answer_reward": _mean([row["answer_reward"] for row in rows]),
        "format1_answer1": sum(row["format_reward"] > 0 for row in correct),
        "format1_answer0": sum(row["format_reward"] > 0 for row in incorrect),
        "format0_answer0": sum(not row["format_reward"] > 0 for row in incorrect),
        "ungraded": sum(row["verdict"] in UNGRADED for row in rows),
        "length_correct": _mean([row["num_response_tokens"] for row in correct]),
        "length_incorrect": _mean([row["num_response_tokens"] for row in incorrect]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _token_entropy(rows: Sequence[Row]) -> float | None:
    """Mean over tokens of rows that hold means over their own: weighted by length, empty responses left out."""
    spoken = [row for row in rows if row["num_response_tokens"]]
    if not spoken or any(row.get("mean_token_entropy") is None for row in spoken):
        return None
    total = sum(row["mean_token_entropy"] * row["num_response_tokens"] for row in spoken)
    return total / sum(row["num_response_tokens"] for row in spoken)
