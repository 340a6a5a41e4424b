"""What every figure shares: palette and style, axes placed by hand, and output whose bytes never vary."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.reporting.lines import Line

INK, MUTED, GRID, PAPER = "#24292f", "#6e7781", "#d8dee4", "#ffffff"
# Okabe and Ito's palette without its yellow and black, which vanish on white and on dark, and a brown; told apart with
# any common colour blindness. Markers repeat the distinction, and dashes begin where the colours run out.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f5539")
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
WIDTH = 11.0
LEFT, RIGHT, ABOVE, BELOW = 0.52, 0.16, 0.3, 0.46


def matplotlib() -> Any:
    """Imported where it is used: half a second that programs without figures need not wait for."""
    import matplotlib
    import matplotlib.figure
    import matplotlib.ticker

    return matplotlib


def axes_of_row(figure: Any, count: int, columns: int, bottom: float, row_height: float) -> list[Any]:
    """Axes for the panels of one row; one of fewer panels than columns leaves its right end empty. Inches."""
    width, height = figure.get_size_inches()
    cell = width / columns
    size = ((cell - LEFT - RIGHT) / width, (row_height - ABOVE - BELOW) / height)
    return [figure.add_axes(((at * cell + LEFT) / width, (bottom + BELOW) / height, *size)) for at in range(count)]


def legend_columns(labels: Sequence[str]) -> int:
    """As many as fit: about 170 characters to the width, 13 of them for a handle and the gap to the next column."""
    longest = max((len(label) for label in labels), default=0)
    return max(1, min(len(labels), 170 // (longest + 13)))


def legend(figure: Any, handles: Mapping[str, Any], columns: int, below: float) -> None:
    """A legend that is read row by row, its upper edge `below` inches under the figure's."""
    down = [list(handles)[at::columns] for at in range(columns)]  # a legend fills its columns; people read rows
    order = [text for column in down for text in column]
    place = {"loc": "upper left", "bbox_to_anchor": (0.002, 1 - below / figure.get_figheight()), "borderaxespad": 0}
    figure.legend([handles[text] for text in order], order, ncols=columns, frameon=False, handlelength=2.8, **place)


def draw_line(axes: Any, curve: Line, colour: str, scale: float = 1.0, marker: str = "", **style: Any) -> Any:
    """The mean, the band of its seeds, and thin lines where single seeds went on alone; returns the mean's handle.

    `scale`: units of x in one unit of the axis.
    """
    x = [value / scale for value in curve.x]
    style = {"color": colour, "linewidth": 1.5, "zorder": 3} | style
    if marker:
        style |= {"marker": marker, "markersize": 4.5, "markevery": max(1, len(x) // 24)}
        style |= {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
    (handle,) = axes.plot(x, curve.middle, **style)
    if curve.low != curve.high:
        axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
    for further, values in curve.beyond:
        axes.plot([value / scale for value in further], values, color=colour, linewidth=0.9, alpha=0.7)
    return handle


def spans_decades(axes: Any) -> bool:
    drawn = [value for one in axes.lines for value in one.get_ydata()]
    return bool(drawn) and min(drawn) > 0 and max(drawn) > 10 * min(drawn)


def log_scale(axes: Any) -> None:
    """Plain numbers, and 2 and 5 between the decades, so that a narrow range is labelled too."""
    ticker = matplotlib().ticker
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def same_limits(together: Iterable[Any]) -> None:
    """Panels that invite comparison share their scale."""
    together = list(together)
    limits = [axes.get_ylim() for axes in together]
    for axes in together:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def to_svg(figure: Any) -> str:
    """SVG text without dates, coordinates to two decimals (a hundredth of a point)."""
    file = io.StringIO()
    with matplotlib().rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})

    def shorten(attribute: re.Match[str]) -> str:
        return re.sub(r"\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.2f}", attribute[0])

    return re.sub(r' (?:d|x|y|points)="[^"]*"', shorten, file.getvalue())


def to_png(figure: Any) -> bytes:
    file = io.BytesIO()
    with matplotlib().rc_context(STYLE):
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
