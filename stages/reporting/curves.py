"""Small multiples of an experiment: validation reward first, then what explains it. Same input, same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.reporting import wording
from stages.reporting.lines import (
    DIAGNOSTICS,
    LENGTHS,
    PRETRAINING,
    VALIDATION,
    Line,
    Panel,
    line,
    time_unit,
    with_data,
)
from stages.reporting.runs import Configuration, Run, by_value

INK, MUTED, GRID, PAPER = "#24292f", "#6e7781", "#d8dee4", "#ffffff"
# Okabe and Ito's palette without its yellow and black, which vanish on white and on dark; told apart with any common
# colour blindness. Markers repeat the distinction, and dashes begin where the colours run out.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c8c8c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)))
STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "ladder",
}
# Inches. The places are computed, not solved for by a layout engine, whose last digits differ from run to run.
WIDTH, FIRST_ROW, OTHER_ROWS = 11.0, 2.9, 2.0
LEFT, RIGHT, ABOVE, BELOW = 0.52, 0.16, 0.3, 0.46


def experiment_figure(name: str, order: Sequence[Configuration]) -> Any:
    """A matplotlib figure of `runs.ranked(...)`. The winner is drawn heavier; colours follow the swept values, so that
    a change of winner recolours nothing."""
    matplotlib = _matplotlib()
    rows = _rows(order)
    found = by_value(order)
    labels = [_label(one, found) for one in found]
    entries = _legend_columns(labels)
    head = 0.66 + 0.2 * -(-len(labels) // entries)
    height = head + sum(row_height for _, _, row_height in rows)
    handles: dict[str, Any] = {}
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(WIDTH, height), facecolor=PAPER)
        bottom = height - head
        for panels, columns, row_height in rows:
            bottom -= row_height
            drawn = _axes_of_row(figure, len(panels), columns, bottom, row_height)
            for axes, panel in zip(drawn, panels, strict=True):
                handles = _draw(axes, panel, found, labels, order[0]) | handles
            if panels[0] in LENGTHS:
                _same_limits(drawn)
        _head(figure, name, found, {text: handles[text] for text in labels if text in handles}, entries)
    return figure


def _axes_of_row(figure: Any, count: int, columns: int, bottom: float, row_height: float) -> list[Any]:
    """Axes for the panels of one row; one of fewer panels than columns leaves its right end empty. Inches."""
    width, height = figure.get_size_inches()
    cell = width / columns
    size = ((cell - LEFT - RIGHT) / width, (row_height - ABOVE - BELOW) / height)
    return [figure.add_axes(((at * cell + LEFT) / width, (bottom + BELOW) / height, *size)) for at in range(count)]


def _matplotlib() -> Any:
    """Imported where it is used: half a second that programs without figures need not wait for."""
    import matplotlib
    import matplotlib.figure
    import matplotlib.ticker

    return matplotlib


def _rows(order: Sequence[Configuration]) -> list[tuple[list[Panel], int, float]]:
    """For each row of the figure: the panels that have data, its number of columns, its height."""
    others = with_data(order, DIAGNOSTICS)
    columns = 4 if len(others) in (4, 7, 8) else 3
    rows = [(with_data(order, VALIDATION), 2, FIRST_ROW)]
    rows += [(others[at : at + columns], columns, OTHER_ROWS) for at in range(0, len(others), columns)]
    return [row for row in [*rows, (with_data(order, LENGTHS), 3, OTHER_ROWS)] if row[0]]


def _label(one: Configuration, found: Sequence[Configuration]) -> str:
    """The swept values, without the key where there is one (the heading names it), and how the runs ended."""
    keys = wording.varying(found)
    text = wording.number(one.values[keys[0]]) if len(keys) == 1 else wording.label(one.values, keys)
    broken = [run.status for run in one.runs if run.status != "finished"]
    return text + (f" (× {broken[0]})" if broken else "")


def _legend_columns(labels: Sequence[str]) -> int:
    longest = max(len(label) for label in labels)
    return max(1, min(len(labels), 140 // (longest + 9)))


def _head(figure: Any, name: str, found: Sequence[Configuration], handles: Mapping[str, Any], columns: int) -> None:
    keys, height = wording.varying(found), figure.get_figheight()
    notes = [keys[0]] if len(keys) == 1 else []
    notes += ["line: mean over seeds, band: their range" if any(len(one.runs) > 1 for one in found) else "one seed"]
    notes += ["heavy: best"] if len(found) > 1 else []
    notes += ["training curves: moving mean"]
    figure.text(0.008, 1 - 0.10 / height, name, fontsize=13, weight="bold", va="top")
    figure.text(0.008, 1 - 0.36 / height, "  ·  ".join(notes), color=MUTED, va="top")
    if len(handles) > 1:
        down = [list(handles)[at::columns] for at in range(columns)]  # a legend fills its columns; people read rows
        order = [text for column in down for text in column]
        place = {"loc": "upper left", "bbox_to_anchor": (0.002, 1 - 0.57 / height), "borderaxespad": 0}
        figure.legend([handles[text] for text in order], order, ncols=columns, frameon=False, handlelength=2.4, **place)


def _draw(
    axes: Any, panel: Panel, found: Sequence[Configuration], labels: Sequence[str], best: Configuration
) -> dict[str, Any]:
    """Draw one panel; return legend handles by label."""
    scale, unit = time_unit(found) if panel.x == "seconds" else (1.0, "optimiser steps")
    handles = {}
    for at, (one, text) in enumerate(zip(found, labels, strict=True)):
        curve = line(one.runs, panel)
        if curve is not None and curve.x:
            handles[text] = _draw_line(axes, curve, panel, at, scale, one is best and len(found) > 1)
            if not one.finished:
                cross = {"marker": "x", "markersize": 8, "markeredgewidth": 2.2, "color": COLOURS[at % len(COLOURS)]}
                axes.plot(curve.x[-1] / scale, curve.middle[-1], zorder=5, **cross)
    axes.set_title(panel.title)
    axes.set_xlabel(unit)
    axes.margins(x=0.02)
    if panel.x == "step":
        axes.xaxis.set_major_locator(_matplotlib().ticker.MaxNLocator(nbins=7, integer=True))
    if panel.log and _spans_decades(axes):
        _log_scale(axes)
    elif panel.floor is not None:
        axes.set_ylim(bottom=panel.floor)
    return handles


def _draw_line(axes: Any, curve: Line, panel: Panel, at: int, scale: float, heavy: bool) -> Any:
    """The mean, the band of its seeds, and thin lines where single seeds went on alone; returns the mean's handle."""
    colour = COLOURS[at % len(COLOURS)]
    x = [value / scale for value in curve.x]
    markers = {"marker": MARKERS[at % len(MARKERS)], "markersize": 4.5, "markevery": max(1, len(x) // 24)}
    markers |= {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
    dash = DASHES[at // len(COLOURS) % len(DASHES)]
    style = {"color": colour, "linestyle": dash, "linewidth": 2.4 if heavy else 1.5, "zorder": 4 if heavy else 3}
    (handle,) = axes.plot(x, curve.middle, **style, **(markers if panel.kind == "validation" else {}))
    if curve.low != curve.high:
        axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
    for further, values in curve.beyond:
        axes.plot([value / scale for value in further], values, color=colour, linewidth=0.9, alpha=0.7)
    return handle


def _spans_decades(axes: Any) -> bool:
    drawn = [value for one in axes.lines for value in one.get_ydata()]
    return bool(drawn) and min(drawn) > 0 and max(drawn) > 10 * min(drawn)


def _log_scale(axes: Any) -> None:
    """Plain numbers, and 2 and 5 between the decades, so that a narrow range is labelled too."""
    ticker = _matplotlib().ticker
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def _same_limits(together: Iterable[Any]) -> None:
    """Panels that invite comparison share their scale."""
    together = list(together)
    limits = [axes.get_ylim() for axes in together]
    for axes in together:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def pretraining_figure(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Loss of pretraining the base policy from its METRICS rows; only that stage is judged by likelihood."""
    matplotlib = _matplotlib()
    only = Configuration(values={}, runs=(Run(path="base", values={}, train=tuple(rows)),))
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(5.5, 2.4), facecolor=PAPER)
        (axes,) = _axes_of_row(figure, 1, 1, 0.0, 2.4)
        _draw(axes, PRETRAINING, [only], ["base"], only)
    return figure


def to_svg(figure: Any) -> str:
    """SVG text without dates, coordinates to two decimals (a hundredth of a point)."""
    file = io.StringIO()
    with _matplotlib().rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})

    def shorten(attribute: re.Match[str]) -> str:
        return re.sub(r"\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.2f}", attribute[0])

    return re.sub(r' (?:d|x|y|points)="[^"]*"', shorten, file.getvalue())


def to_png(figure: Any) -> bytes:
    file = io.BytesIO()
    with _matplotlib().rc_context(STYLE):
        figure.savefig(file, format="png", dpi=160, metadata={"Software": None})
    return file.getvalue()


def inline(svg: str, prefix: str) -> str:
    """An SVG to stand inside an HTML page: no prologue, no namespace URLs, ids of its own, and the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = svg.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")
    head, body = svg.split(">", 1)
    svg = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", head) + ">" + body
    for colour, variable in ((INK, "ink"), (MUTED, "muted"), (GRID, "line"), (PAPER, "card")):
        svg = svg.replace(colour, f"var(--{variable})")
    return svg
