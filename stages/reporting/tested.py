"""Winners on the test set, which no choice has seen; and the same questions before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from stages.reporting import ladder, statistics, transcripts, wording
from stages.reporting.ladder import KINDS, Rung
from stages.reporting.measures import ANSWERS, Measure
from stages.reporting.runs import Configuration, mean

Row = Mapping[str, Any]
ASKED = ("prompt", "reward", "sampling_temperature", "sampling_min_tokens", "sampling_max_tokens", "stop")
BASE = "base"


class Evaluated(Protocol):
    name: str
    values: Mapping[str, Any]
    metrics: Row
    rows: Sequence[Row]


class Experiment(Protocol):
    name: str
    stage: str
    order: Sequence[Configuration]
    measure: Measure


@dataclass(frozen=True)
class Tested:
    """An experiment's winner, its first seed's checkpoint, on the test set, asked as its runs were; `base`: the policy
    that the ladder sets out from, asked the same. `score`: what validation said when it chose."""

    experiment: str
    rung: Rung
    base: Rung | None
    score: float

    @property
    def sentence(self) -> str:
        rung, base = self.rung, self.base
        said = (
            f"On {rung.dataset}, whose {rung.questions} questions chose nothing, its checkpoint answers "
            f"{wording.percent(rung.answer_reward)} right ({interval(rung)})"
        )
        return f"{said}; the base policy {wording.percent(base.answer_reward)}." if base else f"{said}."


def interval(rung: Rung) -> str:
    return f"95 % interval {wording.percent(rung.low)} to {wording.percent(rung.high)}"


def tested(
    tests: Mapping[str, Sequence[str]], evaluations: Sequence[Evaluated], experiments: Sequence[Experiment]
) -> list[Tested]:
    """One for each experiment whose winner was measured. `tests`: evaluation -> the experiments that it is for."""
    found = []
    for one in experiments:
        if one.measure != ANSWERS:
            continue
        of_it = [e for e in evaluations if one.name in tests.get(e.name, ()) and _asked_alike(e, one.order[0])]
        winner = next((e for e in of_it if e.values["model"] == one.name), None)
        base = next((e for e in of_it if e.values.get("model", BASE) == BASE), None)
        if winner is not None:
            found.append(Tested(one.name, _named(winner, one), base and rung_of(base), one.order[0].score))
    return found


def rung_of(one: Evaluated) -> Rung:
    return ladder.from_evaluation(one.name, one.values, one.metrics, one.rows)


def _asked_alike(one: Evaluated, winner: Configuration) -> bool:
    """An evaluation in the way that a run was asked: the winner of a choice of prompts was measured under each."""
    run = winner.runs[0].values
    return all(one.values[key] == run[key] for key in ASKED if key in one.values and key in run)


def _named(one: Evaluated, experiment: Experiment) -> Rung:
    """The rung under the winner's name, beside the score by which validation chose it."""
    order, best = experiment.order, experiment.order[0]
    label = wording.label(best.values, wording.varying(order))
    many = ladder.place(order)
    note = f"seed {best.runs[0].seed}; {wording.fixed(best.score)} on {best.runs[0].values.get('validation')}"
    return replace(
        rung_of(one),
        name=experiment.name if label == "single configuration" else f"{experiment.name}: {label}",
        kind=KINDS.get(experiment.stage, experiment.stage),
        note=f"{note} ({', '.join(filter(None, [wording.seeds(best), many, ladder.end(best)]))})",
    )


def rungs(found: Sequence[Tested], tests: Mapping[str, Sequence[str]], evaluations: Sequence[Evaluated]) -> list[Rung]:
    """The ladder of the test set: the base policy in each way that it was asked, the winners, then evaluations that
    are on other questions or of policies that answers did not choose."""
    first = [one for one in evaluations if one.name in tests and one.values.get("model", BASE) == BASE]
    rest = [one for one in evaluations if one.name not in tests]
    return [*map(rung_of, first), *(one.rung for one in found), *map(rung_of, rest)]


def headline(found: Sequence[Tested]) -> str:
    """The policy that validation puts first, measured on the test set; empty where there is none."""
    if not found:
        return ""
    best = max(found, key=lambda one: one.score)
    rung, base = best.rung, best.base
    said = (
        f"The trained policy that validation puts first ({rung.name}) answers {wording.percent(rung.answer_reward)} of "
        f"the {rung.questions} questions of {rung.dataset} right ({interval(rung)}), which no choice has seen"
    )
    return f"{said}; the base policy answers {wording.percent(base.answer_reward)}." if base else f"{said}."


# ---------------------------------------------------------------- side by side


@dataclass(frozen=True)
class BeforeAndAfter:
    """What became of the questions that the base policy and a trained one were both asked, and some of each kind.
    `gain`: in share right, with the ends of its 95 % interval over questions, paired; None where nothing is graded."""

    before: str
    stories: transcripts.Stories
    gain: tuple[float, float, float] | None

    @property
    def sentence(self) -> str:
        counts = self.stories.counts
        told = ", ".join(f"{count} {fate} ({AFTER[fate]})" for fate, count in counts.items())
        said = f"The same {sum(counts.values())} questions, asked of the base policy ({self.before}): {told}."
        if self.gain is None:
            return said
        gain, *ends = self.gain
        return f"{said} Paired question by question, the share right changed by {gain:+.3f} (95 % interval " + (
            f"{ends[0]:+.3f} to {ends[1]:+.3f}), between these two checkpoints."
        )


AFTER = {
    "learned": "right after training alone",
    "lost": "right before it alone",
    "kept": "right before and after",
    "missed": "right neither before nor after",
    "ungraded": "to be read: nothing graded it",
}


def before_and_after(one: Evaluated, evaluations: Sequence[Evaluated]) -> BeforeAndAfter | None:
    """`one` beside the base policy's evaluation on the same questions under the same reward, under the same prompt if
    there is one such; None where there is none, and of the base policy itself."""

    def same(other: Evaluated, *keys: str) -> bool:
        return all(other.values.get(key) == one.values.get(key) for key in keys)

    if one.values.get("model", BASE) == BASE:
        return None
    fitting = [other for other in evaluations if other.values.get("model", BASE) == BASE]
    fitting = [other for other in fitting if same(other, "dataset", "reward")]
    if not fitting:
        return None
    before = max(fitting, key=lambda other: same(other, "prompt"))
    rows = [{**row, "step": step} for step, of in enumerate((before, one)) for row in of.rows]
    stories = transcripts.stories(rows, points=2)
    return None if stories is None else BeforeAndAfter(before.name, stories, _gain(before, one))


def _gain(before: Evaluated, after: Evaluated) -> tuple[float, float, float] | None:
    if any(row["verdict"] is None for of in (before, after) for row in of.rows):
        return None
    there, here = (statistics.by_question(of.rows) for of in (before, after))
    if there.keys() != here.keys():
        return None
    differences = [mean(here[name]) - mean(there[name]) for name in here]
    gain, half = mean(differences), statistics.over_questions(differences)
    return gain, max(-1.0, gain - half), min(1.0, gain + half)
