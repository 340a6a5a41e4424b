"""Small multiples of an experiment: validation reward first, then what explains it. Same input, same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.reporting import canvas, wording
from stages.reporting.canvas import COLOURS, DASHES, MARKERS, MUTED, PAPER, STYLE, WIDTH
from stages.reporting.lines import (
    LENGTHS,
    PRETRAINING,
    Panel,
    budget,
    diagnostic_panels,
    line,
    longest,
    time_unit,
    validation_panels,
    with_data,
)
from stages.reporting.references import Reference
from stages.reporting.rounds import boundaries
from stages.reporting.runs import Configuration, Run, by_value

FIRST_ROW, OTHER_ROWS = 2.9, 2.0
REFERENCE_DASHES = ((0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.4, 1.2, 1.4)))
MOST_BEYOND = 2.0  # a reference that went on longer is cut at this many times the experiment's own extent
AXES = {"step": "optimiser steps", "round": "rounds of expert iteration", "examples": "examples trained on"}


@dataclass(frozen=True)
class Scene:
    """What all panels of a figure share: configurations by value, their labels, the best one, and references."""

    found: Sequence[Configuration]
    labels: Sequence[str]
    best: Configuration
    references: Sequence[Reference] = ()

    @property
    def everything(self) -> list[Configuration]:
        return [*self.found, *(one.configuration for one in self.references)]


def experiment_figure(name: str, order: Sequence[Configuration], references: Sequence[Reference] = ()) -> Any:
    """A matplotlib figure of `runs.ranked(...)`. The winner is drawn heavier; colours follow the swept values, so that
    a change of winner recolours nothing. References are dashed grey, and decide neither panels nor their extent."""
    matplotlib = canvas.matplotlib()
    rows, found = _rows(order), by_value(order)
    scene = Scene(found, [_label(one, found) for one in found], order[0], references)
    names = [one.label for one in references]
    legends = [(texts, canvas.legend_columns(texts)) for texts in (scene.labels, names)]
    head = 0.66 + 0.2 * sum(-(-len(texts) // columns) for texts, columns in legends)
    height = head + sum(row_height for _, _, row_height in rows)
    handles: dict[str, Any] = {}
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(WIDTH, height), facecolor=PAPER)
        bottom = height - head
        for panels, columns, row_height in rows:
            bottom -= row_height
            drawn = canvas.axes_of_row(figure, len(panels), columns, bottom, row_height)
            for axes, panel in zip(drawn, panels, strict=True):
                handles = _draw(axes, panel, scene) | handles
            if panels[0] in LENGTHS:
                canvas.same_limits(drawn)
        _head(figure, name, scene)
        _legends(figure, legends, handles)
    return figure


def _rows(order: Sequence[Configuration]) -> list[tuple[list[Panel], int, float]]:
    """For each row of the figure: the panels that have data, its number of columns, its height."""
    first, others = validation_panels(order), diagnostic_panels(order)
    columns = 4 if len(others) in (4, 7, 8) else 3
    rows = [(first, max(2, len(first)), FIRST_ROW)]
    rows += [(others[at : at + columns], columns, OTHER_ROWS) for at in range(0, len(others), columns)]
    return [row for row in [*rows, (with_data(order, LENGTHS), 3, OTHER_ROWS)] if row[0]]


def _label(one: Configuration, found: Sequence[Configuration]) -> str:
    """The swept values, without the key where there is one (the heading names it), and how the runs ended."""
    keys = wording.varying(found)
    text = wording.number(one.values[keys[0]]) if len(keys) == 1 else wording.label(one.values, keys)
    broken = [run.status for run in one.runs if run.status != "finished"]
    return text + (f" (× {broken[0]})" if broken else "")


def _head(figure: Any, name: str, scene: Scene) -> None:
    """The name, and what a reader must know to read the curves."""
    found, height = scene.found, figure.get_figheight()
    keys = wording.varying(found)
    notes = [keys[0]] if len(keys) == 1 else []
    notes += ["line: mean over seeds, band: their range" if any(len(one.runs) > 1 for one in found) else "one seed"]
    notes += ["heavy: best"] if len(found) > 1 else []
    notes += ["dashed grey: reference"] if scene.references else []
    notes += ["dotted: ends of the best run's rounds"] if boundaries(scene.best) else []
    notes += ["training curves: moving mean"]
    figure.text(0.008, 1 - 0.10 / height, name, fontsize=13, weight="bold", va="top")
    figure.text(0.008, 1 - 0.36 / height, "  ·  ".join(notes), color=MUTED, va="top")


def _legends(figure: Any, legends: Sequence[tuple[Sequence[str], int]], handles: Mapping[str, Any]) -> None:
    """That of the configurations, and under it that of the references; one label alone needs none."""
    below, shown = 0.57, sum(len(texts) for texts, _ in legends)
    for texts, columns in legends:
        there = {text: handles[text] for text in texts if text in handles}
        if there and shown > 1:
            canvas.legend(figure, there, columns, below)
        below += 0.2 * -(-len(texts) // columns)


def _draw(axes: Any, panel: Panel, scene: Scene) -> dict[str, Any]:
    """Draw one panel; return legend handles by label."""
    limit = budget(scene.found) if panel.x == "seconds" else None
    scale, unit = time_unit(limit or longest(scene.everything)) if panel.x == "seconds" else (1.0, AXES[panel.x])
    handles = {}
    for at, (one, text) in enumerate(zip(scene.found, scene.labels, strict=True)):
        curve = line(one.runs, panel)
        if curve is not None and curve.x:
            heavy = {"linewidth": 2.4, "zorder": 4} if one is scene.best and len(scene.found) > 1 else {}
            mark = MARKERS[at % len(MARKERS)] if panel.kind == "validation" else ""
            dash = DASHES[at // len(COLOURS) % len(DASHES)]
            colour = COLOURS[at % len(COLOURS)]
            handles[text] = canvas.draw_line(axes, curve, colour, scale, mark, linestyle=dash, **heavy)
            if not one.finished:
                cross = {"marker": "x", "markersize": 8, "markeredgewidth": 2.2, "color": colour}
                axes.plot(curve.x[-1] / scale, curve.middle[-1], zorder=5, **cross)
    handles |= _draw_references(axes, panel, scene, scale)
    axes.set_title(panel.title)
    axes.set_xlabel(unit if limit is None else f"{unit}; the axis ends at the budget")
    _scales(axes, panel, None if limit is None else limit / scale)
    _draw_rounds(axes, panel, scene.best)
    return handles


def _draw_references(axes: Any, panel: Panel, scene: Scene, scale: float) -> dict[str, Any]:
    """Behind the experiment's own curves. A reference without rounds is level in the panel of rounds, at its score."""
    own = max((max(one.get_xdata(), default=0.0) for one in axes.lines), default=0.0)
    handles, furthest = {}, 0.0
    for at, one in enumerate(scene.references):
        style = {"linestyle": REFERENCE_DASHES[at % len(REFERENCE_DASHES)], "zorder": 2.5}
        curve = line(one.configuration.runs, panel)
        if curve is not None and curve.x:
            handles[one.label] = canvas.draw_line(axes, curve, MUTED, scale, **style)
            furthest = max(furthest, curve.x[-1] / scale)
        elif panel.x == "round":
            handles[one.label] = axes.axhline(one.configuration.score, color=MUTED, linewidth=1.5, **style)
    axes.margins(x=0.02)
    if furthest > MOST_BEYOND * own > 0:
        axes.set_xlim(right=MOST_BEYOND * own)
    return handles


def _draw_rounds(axes: Any, panel: Panel, best: Configuration) -> None:
    if panel.x == "step" and panel.column in ("answer_reward", "token_entropy"):
        for step in boundaries(best):
            axes.axvline(step, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)


def _scales(axes: Any, panel: Panel, limit: float | None) -> None:
    """Whole numbers where x counts something; y from the panel's floor, or in decades where the data span some."""
    if panel.x != "seconds":
        axes.xaxis.set_major_locator(canvas.matplotlib().ticker.MaxNLocator(nbins=7, integer=True))
    if limit is not None:
        axes.set_xlim(0.0, limit)
    if panel.log and canvas.spans_decades(axes):
        canvas.log_scale(axes)
    elif panel.floor is not None:
        axes.set_ylim(bottom=panel.floor)


def pretraining_figure(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Loss of pretraining the base policy from its METRICS rows; only that stage is judged by likelihood."""
    matplotlib = canvas.matplotlib()
    only = Configuration(values={}, runs=(Run(path="base", values={}, train=tuple(rows)),))
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(5.5, 2.4), facecolor=PAPER)
        (axes,) = canvas.axes_of_row(figure, 1, 1, 0.0, 2.4)
        _draw(axes, PRETRAINING, Scene([only], ["base"], only))
    return figure
