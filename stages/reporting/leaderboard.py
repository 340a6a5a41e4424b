"""The best policy of a run with a wall-clock budget, as a row of an accuracy board and the curve it links to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.reporting import canvas, wording
from stages.reporting.lines import SECONDS, budget, line, time_unit
from stages.reporting.measures import ANSWERS
from stages.reporting.runs import Configuration, Run, mean, measured
from stages.reporting.tables import cell

HEADER = ("accuracy", "name", "link to curve", "description")
CURVE = "leaderboard.png"
# What the board measures with; a row measured otherwise is another number.
OFFICIAL = {"reward": "r1_zero", "prompt": "r1_zero", "sampling_temperature": 1.0, "sampling_max_tokens": 1024}


@dataclass(frozen=True)
class Entry:
    """The winner at its last validation within the budget, mean over seeds. `faults`: why the row is not valid."""

    name: str
    description: str
    budget: float
    accuracy: float | None
    questions: int
    seconds: float
    step: int
    values: Mapping[str, Any]
    seeds: tuple[Any, ...]
    faults: tuple[str, ...]


def entry(name: str, description: str, order: Sequence[Configuration]) -> Entry | None:
    """The row of an experiment's winner; None where its runs have no budget or answer no questions."""
    best, limit = order[0], budget(order)
    if limit is None or best.measure != ANSWERS:
        return None
    last = [row for run in best.runs if (row := _last_within(run, limit))]
    label = wording.label(best.values, wording.varying(order)) if len(order) > 1 else ""
    return Entry(
        name=name,
        description="; ".join(filter(None, [description.rstrip(".") if label else description, label])),
        budget=limit,
        accuracy=mean(row[ANSWERS.column] for row in last) if len(last) == len(best.runs) else None,
        questions=min((row["num_examples"] or 0 for row in last), default=0),
        seconds=max((row["seconds"] for row in last), default=0.0),
        step=max((row["step"] for row in last), default=0),
        values=best.runs[0].values,
        seeds=tuple(run.seed for run in best.runs),
        faults=tuple(_faults(best, last)),
    )


def _last_within(run: Run, limit: float) -> dict[str, Any] | None:
    """The last validation that had ended when the budget had."""
    rows = [row for row in run.validation if measured(row.get(ANSWERS.column)) and row["seconds"] <= limit]
    return rows[-1] if rows else None


def _faults(best: Configuration, last: Sequence[Mapping[str, Any]]) -> list[str]:
    values = best.runs[0].values
    said = [] if len(last) == len(best.runs) else ["a run had no validation that ended within the budget"]
    asked = values.get("num_validation_examples")
    if asked != "full" and not all((row["num_examples"] or 0) < (asked or 0) for row in last):
        said.append(
            f"validation was on the first {asked} examples, not known to be all of them; "
            "set num_validation_examples: full"
        )
    for key, wanted in OFFICIAL.items():
        if values.get(key) != wanted:
            said.append(f"{key} is {wording.number(values.get(key))}, the board's is {wording.number(wanted)}")
    return said


def row(one: Entry) -> list[str]:
    """The cells under HEADER. A row that is not valid says so in itself, so that it is not handed in by mistake."""
    accuracy = "–" if one.accuracy is None else wording.percent(one.accuracy, 2)
    description = f"NOT VALID. {one.description}".rstrip() if one.faults else one.description
    return [accuracy, one.name, f"[curve]({CURVE})", description]


def facts(one: Entry) -> list[str]:
    """How the accuracy was measured, one statement each."""
    full = (
        "the full validation set" if not any("num_validation_examples" in fault for fault in one.faults) else "a part"
    )
    values, many = one.values, len(one.seeds) > 1
    return [
        f"Accuracy: answer reward on {one.questions} validation examples ({full}) at the last validation that ended "
        f"within the budget of {wording.duration(one.budget)}: step {one.step}, after {wording.duration(one.seconds)}"
        + (f"; mean of seeds {wording.listed(one.seeds)}." if many else f"; seed {one.seeds[0]}."),
        f"Sampling: temperature {wording.number(values.get('sampling_temperature'))}, at most "
        f"{wording.number(values.get('sampling_max_tokens'))} tokens; prompt {values.get('prompt')}, reward "
        f"{values.get('reward')}.",
    ]


def verdict(one: Entry) -> str:
    return f"Not a valid row of the board: {'; '.join(one.faults)}." if one.faults else "A valid row of the board."


def markdown(one: Entry) -> str:
    """leaderboard.md: the row with its header, how it was measured, and whether it may be handed in."""
    accuracy, name, link, description = row(one)
    table = [
        "| " + " | ".join(HEADER) + " |",
        "|" + " --- |" * len(HEADER),
        f"| {accuracy} | {cell(name)} | {link} | {cell(description)} |",
    ]
    notes = "\n".join(f"- {cell(fact)}" for fact in facts(one))
    said = cell(verdict(one))
    return "\n\n".join(["\n".join(table), notes, f"**{said}**" if one.faults else said]) + "\n"


def figure(name: str, best: Configuration, limit: float) -> Any:
    """Validation accuracy of the winner against wall-clock; the axis ends at the budget (seconds)."""
    matplotlib = canvas.matplotlib()
    scale, unit = time_unit(limit)
    with matplotlib.rc_context(canvas.STYLE):
        drawn = matplotlib.figure.Figure(figsize=(6.4, 3.2), facecolor=canvas.PAPER)
        (axes,) = canvas.axes_of_row(drawn, 1, 1, 0.0, 3.2)
        curve = line(best.runs, SECONDS)
        if curve is not None:
            canvas.draw_line(axes, curve, canvas.COLOURS[0], scale, marker=canvas.MARKERS[0])
        axes.set_title(f"{name}: validation accuracy")
        axes.set_xlabel(f"wall-clock, {unit}; the axis ends at the budget of {wording.duration(limit)}")
        axes.set_xlim(0.0, limit / scale)
        axes.set_ylim(bottom=0.0)
    return drawn
