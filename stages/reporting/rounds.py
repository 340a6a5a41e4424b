"""Expert iteration, round by round: what each round sampled and kept, and where it took the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stages.reporting import wording
from stages.reporting.measures import ANSWERS
from stages.reporting.runs import Configuration, Run, column, mean, measured

COUNTS = ("responses", "questions", "correct", "solved", "duplicates", "kept")
MOST_BOUNDARIES = 12
LEGEND = (
    "Correct responses come with their share; solved counts questions with at least one; round 0 is the start. Seconds "
    "include sampling and grading."
)


def has_rounds(order: Sequence[Configuration]) -> bool:
    return any(run.rounds for one in order for run in one.runs)


def rounds_table(order: Sequence[Configuration], first: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Header and formatted rows, one per run and round, of the `first` configurations or all; round 0 is the start."""
    keys = wording.varying(order)
    rows = []
    for one in order[:first]:
        for run in one.runs:
            name = [*(wording.number(one.values[key]) for key in keys), str(run.seed)]
            rows.append([*name, "0", *("–" for _ in COUNTS), wording.fixed(run.start)])
            for number, found in enumerate(run.rounds, 1):
                counts = [_count(found, key) for key in COUNTS]
                rows.append([*name, str(number), *counts, wording.fixed(found.get(ANSWERS.column))])
    return [*keys, "seed", "round", *COUNTS, "answer reward after"], rows


def _count(found: dict[str, Any], key: str) -> str:
    count, responses = found.get(key), found.get("responses")
    if count is None:
        return "–"
    return f"{count} ({wording.percent(count / responses, 0)})" if key == "correct" and responses else str(count)


def rounds_sentence(best: Configuration) -> str:
    """Whether the score was above the start after every round, and how entropy moved; means over seeds."""
    starts = column([{"start": run.start} for run in best.runs], "start")
    scores = _scores(best)
    if not starts or not scores:
        return ""
    start = mean(starts)
    below = [number for number, score in enumerate(scores, 1) if not score > start]
    listed = ", ".join(wording.fixed(score) for score in scores)
    rounds = f"{len(scores)} rounds" if len(scores) > 1 else "its one round"
    if below:
        where = f"round{'s' if len(below) > 1 else ''} {wording.listed(below)}"
        said = f"Not above the start ({wording.fixed(start)}) after {where} of {rounds}"
    else:
        said = f"Above the start ({wording.fixed(start)}) after {'every one of ' if len(scores) > 1 else ''}{rounds}"
    return " ".join(filter(None, [f"{said}: {listed}.", entropy_sentence(best)]))


def _scores(one: Configuration) -> list[float]:
    """Mean over seeds of the answer reward after each round that all of them have."""
    seeds = [[found.get(ANSWERS.column) for found in run.rounds] for run in one.runs]
    return [mean(at) for at in zip(*seeds, strict=False) if all(measured(score) for score in at)]


def entropy_sentence(one: Configuration) -> str:
    """Token entropy at the first and the last validation; "" without two."""
    ends = [_ends(run) for run in one.runs]
    if None in ends:
        return ""
    first, last = (mean(end[at] for end in ends) for at in (0, 1))
    moved = "stayed at" if wording.fixed(first) == wording.fixed(last) else "fell from" if last < first else "rose from"
    if moved == "stayed at":
        return f"Token entropy stayed at {wording.fixed(first)} nats (first to last)."
    return f"Token entropy {moved} {wording.fixed(first)} to {wording.fixed(last)} nats (first to last)."


def _ends(run: Run) -> tuple[float, float] | None:
    values = column(run.validation, "token_entropy")
    return (values[0], values[-1]) if len(values) > 1 else None


def boundaries(one: Configuration) -> list[float]:
    """The optimiser step at which each round but the last ended, mean over seeds; none where they would crowd."""
    seeds = [_last_steps(run) for run in one.runs if run.rounds]
    if not seeds or not 1 < len(seeds[0]) <= MOST_BOUNDARIES:
        return []
    return [mean(at) for at in zip(*seeds, strict=False)][:-1]


def _last_steps(run: Run) -> list[int]:
    """A round that kept nothing took no step, and ends where it began."""
    rows = [row for row in (*run.train, *run.validation) if row.get("round") is not None]
    numbers = range(1, len(run.rounds) + 1)
    return [max((row["step"] for row in rows if row["round"] <= number), default=0) for number in numbers]
