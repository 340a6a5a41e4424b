"""What instruction tuning and DPO share: documents in the Alpaca template, and answers to read at each validation."""

from __future__ import annotations

import math
from typing import Any

from stages.engines.rollouts import VALIDATION, sample_rows
from stages.examples import drawn
from stages.policy.processes import leads, share
from stages.policy.rescoring import score_rollouts

Row = dict[str, Any]


def total_steps(num_items: int, settings: Any) -> int:
    """Optimiser steps that see `num_items` chunks or pairs `n_epochs` times; the last batch may be smaller."""
    return math.ceil(num_items * settings.n_epochs / settings.train_batch_size)


def answers(run: Any, column: str) -> list[Row]:
    """Ungraded ROLLOUTS rows: the policy's answers to `num_generations` instructions of the validation set.

    Those are drawn at random, the same ones each time. The dataset's own answer, `column`, stands beside each as its
    ground truth. Nothing else is sampled in these stages, so the sampler gets the weights here. Entropies that it
    cannot tell come from the trainer.
    """
    shown = drawn(run.validation, run.settings.num_generations)
    if not shown:
        return []
    run.engine.sync(run.model)
    rows = share(_sampled(run, shown, column) if leads() else None)
    score_rollouts(run.model, rows, run.settings)
    return rows


def _sampled(run: Any, shown: list[Row], column: str) -> list[Row]:
    examples = [
        {"example_id": row["example_id"], "question": row["prompt"], "ground_truth": row[column]} for row in shown
    ]
    return sample_rows(
        run.engine,
        run.tokenize,
        examples,
        run.settings,
        step=run.updates,
        group_size=1,
        seed_step=VALIDATION,
        model=run.name,
        run=run.name,
    )
