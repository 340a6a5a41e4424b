"""The best policy of a run with a wall-clock budget, as a row of an accuracy board and the curve it links to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.measure import last_within
from stages.reporting import board, canvas, wording
from stages.reporting.lines import SECONDS, budget, line, time_unit
from stages.reporting.measures import ANSWERS
from stages.reporting.runs import Configuration, mean
from stages.reporting.tables import cell

HEADER = ("accuracy", "name", "link to curve", "description")
CURVE = "leaderboard.png"


@dataclass(frozen=True)
class Entry:
    """The winner at its last validation within the budget, mean over seeds. `faults`: why the course's board would not
    take the row; `unchecked`: what it asks for and nothing here can tell; `official`: what the course's grader made of
    the same responses, seed by seed, where it was asked."""

    name: str
    description: str
    budget: float
    accuracy: float | None
    questions: int
    seconds: float
    step: int
    values: Mapping[str, Any]
    seeds: tuple[Any, ...]
    whole: bool  # whether validation was on all there is
    faults: tuple[str, ...]
    unchecked: tuple[str, ...]
    official: tuple[Mapping[str, Any], ...] = ()


def entry(
    name: str, description: str, order: Sequence[Configuration], context: Mapping[str, Any] | None = None
) -> Entry | None:
    """The row of an experiment's winner; None where its runs have no budget or answer no questions. `context`: as
    board.py reads it."""
    best, limit = order[0], budget(order)
    if limit is None or best.measure != ANSWERS:
        return None
    last = [row for run in best.runs if (row := last_within(run.validation, ANSWERS.column, limit))]
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
        whole=_whole(best, last),
        faults=tuple(board.faults(best, last, context or {})),
        unchecked=tuple(board.unchecked(best, context or {})),
        official=tuple(board.by_reference(best, context or {})),
    )


def _whole(best: Configuration, last: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the validation set was asked for in full, or had fewer questions than were asked for."""
    asked = best.runs[0].values.get("num_validation_examples")
    return asked == "full" or all((row["num_examples"] or 0) < (asked or 0) for row in last)


def row(one: Entry) -> list[str]:
    """The cells under HEADER. One that the course's board would not take says so in itself, so that it is not handed in
    by mistake."""
    counted = mean(run["answer_reward"] for run in one.official) if one.official else one.accuracy
    accuracy = "–" if counted is None else wording.percent(counted, 2)
    description = f"NOT FOR THE COURSE'S BOARD. {one.description}".rstrip() if one.faults else one.description
    return [accuracy, one.name, f"[curve]({CURVE})", description]


def facts(one: Entry) -> list[str]:
    """How the accuracy was measured, one statement each."""
    full = "the full validation set" if one.whole else "the first of them, not known to be all"
    values, many = one.values, len(one.seeds) > 1
    found = [
        f"Accuracy: answer reward on {one.questions} validation examples ({full}) at the last validation that ended "
        f"within the budget of {wording.duration(one.budget)}: step {one.step}, after {wording.duration(one.seconds)}"
        + (f"; mean of seeds {wording.listed(one.seeds)}." if many else f"; seed {one.seeds[0]}."),
        f"Sampling: temperature {wording.number(values.get('sampling_temperature'))}, at most "
        f"{wording.number(values.get('sampling_max_tokens'))} tokens; prompt {values.get('prompt')}, reward "
        f"{values.get('reward')}.",
    ]
    return [*found, *map(_official, one.official)]


def _official(run: Mapping[str, Any]) -> str:
    """The same responses, read by this project's grader and by the course's: which one the row's accuracy is of."""
    ungraded = "; ".join(f"{count} of them: {why}" for why, count in run["faults"].items())
    return (
        f"The row's accuracy is by the grader in {run['file']} (sha256 {run['sha256'][:12]}): "
        f"{wording.percent(run['answer_reward'], 2)} of {run['responses']} responses right, where this project's own "
        f"says {wording.percent(run['answer_reward_here'], 2)}; {run['right_there_alone']} are right there alone, "
        f"{run['right_here_alone']} here alone, {sum(run['faults'].values())} could not be graded there"
        + (f" ({ungraded})." if ungraded else ".")
    )


def verdict(one: Entry) -> str:
    """What the row is: of this ladder's own board, or fit for the course's as far as that can be told from here."""
    if one.faults:
        return f"A row of this ladder's own board. It is none of the course's: {'; '.join(one.faults)}."
    return (
        f"Nothing that was checked ({board.CHECKED}) keeps this row from the course's board. Not checked: "
        f"{'; '.join(one.unchecked)}."
    )


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
