"""Winners of earlier experiments, shown beside the runs of another one and never ranked with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.records import DataError
from stages.reporting import wording
from stages.reporting.measures import Measure
from stages.reporting.runs import Configuration, Run, configurations, mean, measured, read_planned
from stages.strict import read_spec


@dataclass(frozen=True)
class Reference:
    """The winning configuration of `experiment`, all seeds; `keys` are those of its swept keys that vary there."""

    experiment: str
    stage: str
    keys: tuple[str, ...]
    configuration: Configuration

    @property
    def label(self) -> str:
        kind = "on-policy reference" if on_policy(self.stage, self.configuration) else "reference"
        values = [wording.label(self.configuration.values, self.keys)] if self.keys else []
        return f"{kind}: {', '.join([self.experiment, *values])}"


def on_policy(stage: str, one: Configuration) -> bool:
    """Whether each rollout batch of GRPO is used for one optimiser step, by the policy that sampled it."""
    values = one.runs[0].values
    known = {"epochs_per_rollout_batch", "train_batch_size", "rollout_batch_size"} <= set(values)
    once = known and values["epochs_per_rollout_batch"] == 1
    return stage == "grpo" and once and values["train_batch_size"] == values["rollout_batch_size"]


def read_references(planned: Mapping[str, Mapping[str, Any]]) -> list[Reference]:
    """`planned`: experiment -> its stage, grid, cases, winner file and run folders, as the specification lists them."""
    return [_read(name, plan) for name, plan in planned.items()]


def _read(name: str, plan: Mapping[str, Any]) -> Reference:
    chosen = read_spec(Path(plan["winner"]))["values"]
    found = configurations(read_planned(plan["runs"]), plan)
    winners = [one for one in found if one.values == chosen]
    if not winners:
        raise DataError(f"{plan['winner']}: says {chosen}, which no run of {name} has; run select again")
    several = [key for key in wording.varying(found) if len(found) > 1]
    return Reference(name, plan["stage"], tuple(several), winners[0])


def against(best: Configuration, reference: Reference) -> str:
    """The best configuration beside a reference: at the end, after as many steps, and after as many seconds.

    Both curves are read where the shortest of all runs ended, on the line between two validations; where one never got
    beyond its start, the end alone is left to compare.
    """
    other = reference.configuration
    said = [f"{best.measure.when} {best.measure.words} {_beside(best.score, other.score, best.measure)}"]
    trained = all(_end(run, "step") for run in (*best.runs, *other.runs))
    for key, words in (("step", lambda n: f"{n} optimiser steps"), ("seconds", wording.duration)):
        ends = [_end(run, key) for run in (*best.runs, *other.runs)]
        if trained:
            here, there = (_reached(one.runs, key, min(ends)) for one in (best, other))
            said.append(f"after {words(min(ends))} the curves stand at {_beside(here, there, best.measure)}")
    return f"Beside the {reference.label}: {'; '.join(said)}.{_other_questions(best, other)}"


def _validated(run: Run) -> list[dict[str, Any]]:
    return [row for row in run.validation if measured(row.get(run.measure.column))]


def _end(run: Run, key: str) -> float | None:
    return max((row[key] for row in _validated(run)), default=None)


def _reached(runs: Iterable[Run], key: str, limit: float) -> float | None:
    """Mean over seeds of where the curves stand at the limit; None where a run had not validated by then."""
    reached = [_curve_at(run, key, limit) for run in runs]
    return None if None in reached else mean(reached)


def _curve_at(run: Run, key: str, limit: float) -> float | None:
    rows, column = _validated(run), run.measure.column
    before, after = [row for row in rows if row[key] <= limit][-1:], [row for row in rows if row[key] > limit][:1]
    if not before or not after:
        return before[0][column] if before else None
    (low,), (high,) = before, after
    share = (limit - low[key]) / (high[key] - low[key])
    return low[column] + share * (high[column] - low[column])


def _beside(here: float | None, there: float | None, measure: Measure) -> str:
    text = f"{wording.fixed(here)} here, {wording.fixed(there)} there"
    if here is None or there is None:
        return text
    lead = measure.ahead(round(here, 3), round(there, 3))  # of the printed numbers, which the reader can subtract
    if abs(lead) < 5e-4:
        return f"{text} (level)"
    return f"{text} ({wording.fixed(abs(lead))} {'ahead' if lead > 0 else 'behind'})"


def _other_questions(best: Configuration, other: Configuration) -> str:
    asked = [_asked(one) for one in (best, other)]
    if asked[0] == asked[1] or not all(count for count, *_ in asked):
        return ""
    here, there = (f"{count} of {name} by {prompt}" for count, name, prompt in asked)
    return f" They answered different questions ({here} here, {there} there), so the two are not one measure."


def _asked(one: Configuration) -> tuple[int, Any, Any]:
    """How many questions, of which dataset, by which prompt."""
    run = one.runs[0]
    counts = [row.get("num_examples") or 0 for row in _validated(run)]
    return (counts or [0])[-1], run.values.get("validation"), run.values.get("prompt")
