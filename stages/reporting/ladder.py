"""The whole ladder in one table: evaluations of the base policy, SFT configurations, winners of the RL experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.reporting import comparison, statistics, wording
from stages.reporting.runs import Configuration, by_value, column, mean, ranked

KINDS = {
    "sft": "SFT",
    "expert_iteration": "expert iteration",
    "grpo": "GRPO",
    "instruct": "instruction tuning",
    "dpo": "DPO",
}
STAGE_ORDER = tuple(KINDS)


@dataclass(frozen=True)
class Rung:
    """One row: a policy, how it was asked, and its share of right answers with a 95 % interval."""

    name: str
    kind: str
    prompt: str
    dataset: str
    questions: int
    answer_reward: float
    format_reward: float | None
    low: float
    high: float
    note: str = ""
    start: float | None = None


def from_evaluation(
    name: str, values: Mapping[str, Any], row: Mapping[str, Any], graded: Iterable[Mapping[str, Any]]
) -> Rung:
    """`row` is the evaluation's one METRICS row, `graded` its ROLLOUTS rows."""
    trials = row["num_examples"] or 0
    low, high = statistics.of_questions(statistics.by_question(graded))
    return Rung(
        name=name,
        kind="zero-shot" if values.get("model", "base") == "base" else f"winner of {values['model']}",
        prompt=values.get("prompt", ""),
        dataset=values.get("dataset", ""),
        questions=trials,
        answer_reward=row["answer_reward"] or 0.0,
        format_reward=row["format_reward"],
        low=low,
        high=high,
    )


def from_configuration(experiment: str, stage: str, one: Configuration, keys: Sequence[str], note: str) -> Rung:
    trials = comparison.asked(one.runs[0])
    low, high = comparison.interval(one)
    formats = [value for run in one.runs for value in column(run.validated[-3:], "format_reward")]
    starts = [run.start for run in one.runs if run.start is not None]
    values = one.runs[0].values
    label = wording.label(one.values, keys)
    return Rung(
        name=experiment if label == "single configuration" else f"{experiment}: {label}",
        kind=KINDS.get(stage, stage),
        prompt=values.get("prompt", ""),
        dataset=values.get("validation", ""),
        questions=trials,
        answer_reward=one.score,
        format_reward=mean(formats) if formats else None,
        low=low,
        high=high,
        note=note,
        start=mean(starts) if starts else None,
    )


def rungs_of(experiment: str, stage: str, order: Sequence[Configuration]) -> list[Rung]:
    """Every configuration of an SFT experiment, its variants being the ladder's lower steps; the winner of others."""
    keys = wording.varying(order)
    shown = by_value(order) if stage == "sft" else order[:1]
    rungs = []
    for one in shown:
        chosen = place(order) if one is order[0] else ""
        note = ", ".join(filter(None, (chosen, "" if one.finished else "did not finish", _seeds(one))))
        rungs.append(from_configuration(experiment, stage, one, keys, note))
    return rungs


def place(order: Sequence[Configuration]) -> str:
    """What the one that is passed on is among the others: `best of 3`, or not even that; empty where it is alone."""
    if len(order) < 2:
        return ""
    return f"best of {len(order)}" if ranked(order)[0] is order[0] else f"passed on of {len(order)}, undecided"


def end(one: Configuration) -> str:
    """How the run whose policy is passed on ended, where it did not finish: `its run diverged`."""
    run = one.runs[0]
    return "" if run.status == "finished" else f"its run {run.status}"


def _seeds(one: Configuration) -> str:
    return "1 seed" if len(one.runs) == 1 else f"{len(one.runs)} seeds"


def in_order(experiments: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names from the ladder's foot upwards: stages in the order of KINDS; an experiment after those it inherits from or
    is compared with; then by name. (The specification is JSON with sorted keys, so the order of config.yaml is lost.)
    """

    def depth(name: str) -> int:
        parents = {*(experiments[name].get("inherit") or {}).values(), *(experiments[name].get("compare_with") or ())}
        return 1 + max((depth(parent) for parent in parents if parent in experiments and parent != name), default=0)

    def stage(name: str) -> int:
        kind = experiments[name].get("stage")
        return STAGE_ORDER.index(kind) if kind in STAGE_ORDER else len(STAGE_ORDER)

    return sorted(experiments, key=lambda name: (stage(name), depth(name), name))


def headline(rungs: Sequence[Rung]) -> str:
    """The best trained policy in one sentence, where no test set can tell of it; empty where nothing was trained."""
    trained = [rung for rung in rungs if rung.start is not None]
    if not trained:
        return ""
    best = max(trained, key=lambda rung: rung.answer_reward)
    return (
        f"The best trained policy ({best.name}) answers {wording.percent(best.answer_reward)} of the {best.questions} "
        f"questions of {best.dataset} right; before that training it was {wording.percent(best.start or 0.0)}. "
        "The same questions chose it, which flatters: a config's section test names questions that choose nothing."
    )


def remarks(rungs: Sequence[Rung]) -> list[str]:
    """What scores of nothing mean, said instead of hidden; empty where there is nothing to say."""
    unmeasured = [rung.name for rung in rungs if not rung.questions]
    nothing = [rung for rung in rungs if rung.questions and round(rung.answer_reward * rung.questions) == 0]
    said = [f"Not measured on any question: {', '.join(unmeasured)}."] if unmeasured else []
    if nothing:
        named = "; ".join(f"{rung.name}: 0 of {rung.questions}" for rung in nothing)
        highest = wording.percent(max(rung.high for rung in nothing))
        said.append(
            f"Nothing right: {named}. That shows no ability on these questions, and none is expected of a small policy "
            f"or of one that has seen nothing like them; a true rate above {highest} is unlikely."
        )
    return said
