"""Sample and grade at once, as training does: the grader works on one chunk while the next is sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stages.config import Sampled
from stages.engines.protocol import Engine
from stages.engines.rollouts import Example, Row, chunks, sample_rows
from stages.grading.pool import GraderPool
from stages.grading.verdict import Verdict
from stages.policy.clock import Clock


def reward_columns(verdict: Verdict) -> Row:
    """The four columns that grading fills."""
    return {**verdict.rewards(), "verdict": verdict.verdict}


def sample_and_grade(
    engine: Engine,
    tokenize: Callable[[str], list[int]],
    examples: Sequence[Example],
    settings: Sampled,
    pool: GraderPool,
    *,
    step: int,
    group_size: int,
    seed_step: int,
    model: str,
    run: str,
    clock: Clock,
    rollout_batch: int | None = None,
) -> list[Row]:
    """Graded rows. While one chunk of examples is sampled, the grader works on the chunks before it; what is counted
    as grading is the wait for what it has not done by then."""
    rows: list[Row] = []
    pending = []
    for chunk in chunks(examples, max(1, settings.sampling_batch_size // group_size)):
        with clock("sample"):
            fresh = sample_rows(
                engine,
                tokenize,
                chunk,
                settings,
                step=step,
                group_size=group_size,
                seed_step=seed_step,
                model=model,
                run=run,
                rollout_batch=rollout_batch,
            )
        pending.append(pool.submit([(row["response"], row["ground_truth"]) for row in fresh], settings.reward))
        rows += fresh
    with clock("grade"):
        verdicts = [verdict for future in pending for verdict in future.result()]
    for row, verdict in zip(rows, verdicts, strict=True):
        row.update(reward_columns(verdict))
    return rows
