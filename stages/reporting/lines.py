"""What a curve shows: which METRICS column against what, averaged over seeds and smoothed. Numbers only."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stages.reporting.measures import ANSWERS, Measure
from stages.reporting.runs import Configuration, Run, mean, measured
from stages.reporting.wording import varying

MOST_POINTS = 160
Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One set of axes: a METRICS column against optimiser steps, or against what else took the run that far.

    `kind` names the rows: train or validation. What is said of a policy's samples, entropy and lengths among it, is of
    validations, where every stage samples the same questions; training batches differ in what they are made of.
    `x`: step, seconds, examples (trained on so far, repeats counted) or round (of expert iteration, 0 before it).
    """

    title: str
    column: str
    kind: str
    x: str = "step"
    floor: float | None = 0.0
    log: bool = False


STEPS = Panel("Validation answer reward", "answer_reward", "validation")
SECONDS = Panel("Validation answer reward, by wall-clock", "answer_reward", "validation", x="seconds")
ROUNDS = Panel("Validation answer reward, by round", "answer_reward", "validation", x="round")
EXAMPLES = Panel("Validation answer reward, by examples", "answer_reward", "validation", x="examples")
SIZES = {"train", "num_examples", "train_batch_size", "n_epochs"}  # swept, a step is not the same amount of data
DIAGNOSTICS = (
    Panel("Validation format reward", "format_reward", "validation"),
    Panel("Train reward", "reward", "train"),
    Panel("Token entropy (nats)", "token_entropy", "validation"),
    Panel("Entropy on the responses it imitates (nats)", "target_entropy", "train"),
    Panel("Gradient norm, unclipped", "gradient_norm", "train", log=True),
    Panel("Zero-variance groups (share)", "zero_variance_groups", "train"),
    Panel("Responses cut off (share)", "truncated", "validation"),
    Panel("Clip fraction", "clip_fraction", "train"),
    Panel("Training loss (nats)", "loss", "train", floor=None),
    Panel("Train preference accuracy", "preference_accuracy", "train", floor=None),
    Panel("Implicit reward margin (nats)", "reward_margin", "train", floor=None),
    Panel("Log-prob of chosen responses (nats)", "chosen_log_prob", "train", floor=None),
    Panel("Log-prob of rejected responses (nats)", "rejected_log_prob", "train", floor=None),
)
LENGTHS = (
    Panel("Response length (tokens)", "length", "validation", floor=None),
    Panel("Response length, correct", "length_correct", "validation", floor=None),
    Panel("Response length, incorrect", "length_incorrect", "validation", floor=None),
)
PRETRAINING = Panel("Pretraining loss (nats per token)", "loss", "train", floor=None)


@dataclass(frozen=True)
class Line:
    """The curve of one configuration: mean, minimum and maximum over its seeds at each step that all of them reached.

    Seeds measured at different steps (rounds of expert iteration differ in length) are joined by straight lines.
    `beyond` holds (x, y) of each seed that went further than the shortest, so that a run that broke off does not hide
    the others, and the mean never changes what it is a mean of.
    """

    x: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]
    beyond: list[tuple[list[float], list[float]]]


def rows_of(run: Run, panel: Panel) -> tuple[dict[str, Any], ...]:
    return run.train if panel.kind == "train" else run.validation


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Centred moving mean; the window shrinks at both ends, so no value is invented there."""
    half = window // 2
    return [mean(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]


def window_for(panel: Panel, length: int) -> int:
    """Training rows are single batches and noisy: about 5 % of the run, odd. Validation rows are shown as measured."""
    return max(1, length // 20 // 2 * 2 + 1) if panel.kind != "validation" and length >= 20 else 1


def line(runs: Sequence[Run], panel: Panel) -> Line | None:
    """The curve of one configuration, or None where none of its runs has the column."""
    series = [_smooth(found, panel) for run in runs if (found := points(run, panel))]
    if not series:
        return None
    first, last = max(map(min, series)), min(map(max, series))
    steps = _thin(sorted({step for found in series for step in found if first <= step <= last}))
    seeds = [_at(found, steps) for found in series]
    by_step = [[point[1] for point in at] for at in zip(*seeds, strict=True)]
    return Line(
        x=[mean(point[0] for point in at) for at in zip(*seeds, strict=True)],
        middle=[mean(values) for values in by_step],
        low=[min(values) for values in by_step],
        high=[max(values) for values in by_step],
        beyond=[tail for found in series if (tail := _tail(found, steps[-1] if steps else -1))],
    )


def points(run: Run, panel: Panel) -> dict[int, Point]:
    """Step (or, where that is x, round) -> (x, y), ascending."""
    if panel.x == "round":
        scores = [run.start, *(one[panel.column] for one in run.rounds)] if run.rounds else []
        return {number: (number, score) for number, score in enumerate(scores) if measured(score)}
    rows = [row for row in rows_of(run, panel) if measured(row.get(panel.column))]
    if panel.x == "examples":
        seen = examples_seen(run, [row["step"] for row in rows])
        return {row["step"]: (x, row[panel.column]) for row, x in zip(rows, seen, strict=True)}
    return {row["step"]: (row[panel.x], row[panel.column]) for row in rows}


def examples_seen(run: Run, steps: Sequence[int]) -> list[int]:
    """How many examples had been trained on after each of the steps, by the training rows."""
    counted = [row for row in run.train if measured(row.get("num_examples"))]
    at = [row["step"] for row in counted]
    return [counted[after - 1]["num_examples"] if (after := bisect_right(at, step)) else 0 for step in steps]


def _at(found: Mapping[int, Point], steps: Sequence[int]) -> list[Point]:
    """The points at these steps; between two measured ones, on the straight line that joins them."""
    known = list(found)
    points = []
    for step in steps:
        right = bisect_left(known, step)
        x, y = found[known[right]]
        if known[right] != step:
            left, (x0, y0) = known[right - 1], found[known[right - 1]]
            share = (step - left) / (known[right] - left)
            x, y = x0 + share * (x - x0), y0 + share * (y - y0)
        points.append((x, y))
    return points


def _smooth(found: Mapping[int, Point], panel: Panel) -> dict[int, Point]:
    values = smooth([y for _, y in found.values()], window_for(panel, len(found)))
    return {step: (x, value) for (step, (x, _)), value in zip(found.items(), values, strict=True)}


def _thin(steps: Sequence[int]) -> list[int]:
    """At most MOST_POINTS of the steps, both ends among them: a page of curves should open at once."""
    if len(steps) <= MOST_POINTS:
        return list(steps)
    return [steps[round(at * (len(steps) - 1) / (MOST_POINTS - 1))] for at in range(MOST_POINTS)]


def _tail(found: Mapping[int, Point], last: int) -> tuple[list[float], list[float]] | None:
    """The points from the last shared step on, or None where there are none after it."""
    further = [step for step in found if step > last]
    if not further:
        return None
    shared = [last] if last >= min(found) else []
    drawn = _at(found, [*shared, *_thin(further)])
    return [x for x, _ in drawn], [y for _, y in drawn]


def with_data(found: Sequence[Configuration], panels: Iterable[Panel]) -> list[Panel]:
    return [panel for panel in panels if any(line(one.runs, panel) for one in found)]


def validation_panels(found: Sequence[Configuration]) -> list[Panel]:
    """What runs are judged by, by steps and by wall-clock, and by round or by examples where steps alone mislead."""
    panels = [STEPS, SECONDS]
    if any(run.rounds for one in found for run in one.runs):
        panels.append(ROUNDS)
    elif SIZES & set(varying(found)):
        panels.append(EXAMPLES)
    return with_data(found, [_judging(panel, found[0].measure) for panel in panels])


def _judging(panel: Panel, measure: Measure) -> Panel:
    """A panel of answer rewards as one of what the stage is judged by. A loss is drawn without the axis' foot at 0."""
    title = panel.title.replace(ANSWERS.words, measure.words)
    return replace(panel, title=title, column=measure.column, floor=panel.floor if measure.higher_is_better else None)


def diagnostic_panels(found: Sequence[Configuration]) -> list[Panel]:
    """What explains the result. The loss of policy gradient is no measure of anything, so answers are shown without."""
    answers = found[0].measure == ANSWERS
    return with_data(found, [panel for panel in DIAGNOSTICS if not (answers and panel.column == "loss")])


def budget(found: Iterable[Configuration]) -> float | None:
    """The wall-clock budget in seconds; None where a run has none (that of expert iteration is for each round)."""
    limits = [None if run.rounds else run.values.get("max_seconds") for one in found for run in one.runs]
    return None if None in limits else max(limits, default=None)


def time_unit(longest: float) -> tuple[float, str]:
    """Seconds per unit and its name, so that the longest run is a number people can picture."""
    if longest < 300:
        return 1.0, "seconds"
    return (60.0, "minutes") if longest < 3 * 3600 else (3600.0, "hours")


def longest(found: Iterable[Configuration]) -> float:
    return max((row["seconds"] for one in found for run in one.runs for row in run.validation), default=0.0)
