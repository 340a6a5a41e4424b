"""What a curve shows: which METRICS column against what, averaged over seeds and smoothed. Numbers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.reporting.runs import Configuration, Run, column, mean, measured

MOST_POINTS = 160


@dataclass(frozen=True)
class Panel:
    """One set of axes: a METRICS column against optimiser steps, or against seconds.

    `kind` names the rows: train, validation, or either (of training where a stage measures it there, else validation).
    """

    title: str
    column: str
    kind: str
    x: str = "step"
    floor: float | None = 0.0
    log: bool = False


VALIDATION = (
    Panel("Validation answer reward", "answer_reward", "validation"),
    Panel("Validation answer reward, by wall-clock", "answer_reward", "validation", x="seconds"),
)
DIAGNOSTICS = (
    Panel("Validation format reward", "format_reward", "validation"),
    Panel("Train reward", "reward", "train"),
    Panel("Token entropy (nats)", "token_entropy", "either"),
    Panel("Gradient norm, unclipped", "gradient_norm", "train", log=True),
    Panel("Zero-variance groups (share)", "zero_variance_groups", "train"),
    Panel("Responses cut off (share)", "truncated", "either"),
    Panel("Clip fraction", "clip_fraction", "train"),
)
LENGTHS = (
    Panel("Response length (tokens)", "length", "either", floor=None),
    Panel("Response length, correct", "length_correct", "either", floor=None),
    Panel("Response length, incorrect", "length_incorrect", "either", floor=None),
)
PRETRAINING = Panel("Pretraining loss (nats per token)", "loss", "train", floor=None)


@dataclass(frozen=True)
class Line:
    """The curve of one configuration: mean, minimum and maximum over its seeds at each step that all of them reached.

    `beyond` holds (x, y) of each seed that went further than the shortest, so that a run that broke off does not hide
    the others, and the mean never changes what it is a mean of.
    """

    x: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]
    beyond: list[tuple[list[float], list[float]]]


def rows_of(run: Run, panel: Panel) -> tuple[dict[str, Any], ...]:
    if panel.kind == "either":
        return run.train if column(run.train, panel.column) else run.validation
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
    series = [points for run in runs if (points := _points(rows_of(run, panel), panel))]
    if not series:
        return None
    shared = sorted(set.intersection(*(set(points) for points in series)))
    smoothed = [_smooth(points, panel) for points in series]
    steps = _thin(shared)
    at_step = [[points[step][1] for points in smoothed] for step in steps]
    return Line(
        x=[mean(points[step][0] for points in smoothed) for step in steps],
        middle=[mean(values) for values in at_step],
        low=[min(values) for values in at_step],
        high=[max(values) for values in at_step],
        beyond=[tail for points in smoothed if (tail := _tail(points, shared[-1] if shared else -1))],
    )


def _points(rows: Iterable[Mapping[str, Any]], panel: Panel) -> dict[int, tuple[float, float]]:
    """Step -> (x, y)"""
    return {row["step"]: (row[panel.x], row[panel.column]) for row in rows if measured(row.get(panel.column))}


def _smooth(points: Mapping[int, tuple[float, float]], panel: Panel) -> dict[int, tuple[float, float]]:
    values = smooth([y for _, y in points.values()], window_for(panel, len(points)))
    return {step: (x, value) for (step, (x, _)), value in zip(points.items(), values, strict=True)}


def _thin(steps: Sequence[int]) -> list[int]:
    """At most MOST_POINTS of the steps, both ends among them: a page of curves should open at once."""
    if len(steps) <= MOST_POINTS:
        return list(steps)
    return [steps[round(at * (len(steps) - 1) / (MOST_POINTS - 1))] for at in range(MOST_POINTS)]


def _tail(points: Mapping[int, tuple[float, float]], last: int) -> tuple[list[float], list[float]] | None:
    """The points from the last shared step on, or None where there are none after it."""
    steps = _thin([step for step in points if step >= last])
    if not steps or steps[-1] <= last:
        return None
    return [points[step][0] for step in steps], [points[step][1] for step in steps]


def with_data(found: Sequence[Configuration], panels: Iterable[Panel]) -> list[Panel]:
    return [panel for panel in panels if any(line(one.runs, panel) for one in found)]


def time_unit(found: Iterable[Configuration]) -> tuple[float, str]:
    """Seconds per unit and its name, so that the longest run is a number people can picture."""
    longest = max((row["seconds"] for one in found for run in one.runs for row in run.validation), default=0.0)
    if longest < 300:
        return 1.0, "seconds"
    return (60.0, "minutes") if longest < 3 * 3600 else (3600.0, "hours")
