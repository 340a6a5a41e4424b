"""Numbers and outcomes in words: labels, intervals, and the sentence that says which configuration won."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.reporting import statistics
from stages.reporting.choice import Choice
from stages.reporting.comparison import Comparison, compare
from stages.reporting.runs import Configuration, Run, column, mean


def number(value: Any) -> str:
    """A configuration value as short as it can be read: 0.0003 is 3e-4, None is none, True is true."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(number(item) for item in value) + "]"
    if not isinstance(value, float):
        return str(value)
    if value and math.isfinite(value) and not 1e-2 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.5e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:g}"


def fixed(value: float | None, digits: int = 3) -> str:
    """A measured value; an en dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0.000


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.{1 if 0 < seconds < 10 else 0}f} s"
    if seconds < 7200:
        return f"{seconds / 60:.{1 if seconds < 600 else 0}f} min"
    return f"{seconds / 3600:.1f} h"


def counted(questions: Mapping[Any, Sequence[float]]) -> str:
    """Of what is right, question -> each of its responses: `14 of 256 (5.5 %; 95 % interval 3.3 % to 9.0 %)`"""
    successes, trials = statistics.total(questions)
    if not trials:
        return "0 of 0"
    low, high = statistics.of_questions(questions)
    over = "" if trials == len(questions) else f" over {len(questions)} questions"
    interval = f"95 % interval{over} {percent(low)} to {percent(high)}"
    return f"{successes:.0f} of {trials} ({percent(successes / trials)}; {interval})"


def varying(found: Sequence[Configuration]) -> list[str]:
    """The swept keys that take more than one value; all of them where none does."""
    keys = list(found[0].values) if found else []
    several = [key for key in keys if len({number(one.values[key]) for one in found}) > 1]
    return several or keys


def label(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    """`learning_rate = 3e-4, loss_type = grpo_clip`; `single configuration` where nothing is swept."""
    return ", ".join(f"{key} = {number(values[key])}" for key in keys) or "single configuration"


def listed(items: Sequence[Any]) -> str:
    """`0`, `0 and 1`, `0, 1 and 2`"""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def seeds(one: Configuration) -> str:
    names = [run.seed for run in one.runs]
    return f"seed {names[0]} alone" if len(names) == 1 else f"mean of seeds {listed(names)}"


def spread(one: Configuration) -> str:
    return f", range {fixed(min(one.scores))} to {fixed(max(one.scores))}" if len(one.scores) > 1 else ""


def outcome(choice: Choice) -> str:
    """Which configuration did best, by how much, over which seeds; whether that is more than noise; what is passed on.

    Every score in it stands in the table of the experiment.
    """
    best, keys = choice.best, varying(choice.order)
    measure = best.measure
    start = column([{"start": run.start} for run in best.runs], "start")
    reached = f"{fixed(best.score)} ({seeds(best)}{spread(best)})"
    reached += f", from {fixed(mean(start))} before training" if start else ""
    if choice.second is None:
        said = [f"{_capital(measure.when)} validation {measure.words} {reached}."]
    else:
        said = [f"Best: {label(best.values, keys)}, with a {measure.when} validation {measure.words} of {reached}."]
        said += [_lead(best, choice.second, keys, choice.seed_noise)]
    if not best.finished:
        said += ["No configuration finished all its runs, so this one is ranked by what it reached."]
    else:
        said += _passed_on(choice, keys)
    if choice.tuned:
        said += [f"Each arm stands at its own best {listed(choice.tuned)}, chosen on this very validation set."]
    return " ".join([*said, *_unfinished(choice.order)])


def _lead(best: Configuration, second: Configuration, keys: list[str], seed_noise: float) -> str:
    name = f"{label(second.values, keys)} ({fixed(second.score)}{spread(second)})"
    if not second.finished and best.finished:
        return f"No other configuration finished; the next, {name}, is ranked by what it reached before it stopped."
    if abs(best.score - second.score) < 5e-13:
        return f"It ties with {name}."
    gap = compare(best, second, seed_noise)
    by = "less than 0.001" if gap.printed < 5e-4 else fixed(gap.printed)
    return f"It leads {name} by {by}. {_trust(gap, best.measure.items)}"


def span(ends: tuple[float, float]) -> str:
    """`-0.011 to 0.052`"""
    return f"{fixed(ends[0])} to {fixed(ends[1])}"


def _trust(gap: Comparison, items: str) -> str:
    """What the lead shows: of settings where there are several seeds, else of these two checkpoints alone."""
    if gap.several_seeds:
        how = listed([*(["seed"] if gap.shared_seeds else []), *(["question"] if gap.paired else [])] or ["nothing"])
        low, _ = gap.settings
        chance = "which is more than chance" if gap.decided else "so the order may be chance"
        return (
            f"From {listed(sorted(set(gap.counts)))} seeds each, other seeds on this base policy would see a lead of "
            f"{span(gap.settings)} (95 % interval, paired by {how}), {chance}; where seeds differ as these do, so "
            f"many can show no lead below {fixed(gap.lead - low)}."
        )
    alone = "one seed each says nothing about the settings"
    if gap.checkpoints is None:
        return f"{_capital(alone)}."
    low, high = gap.checkpoints
    chance = "" if low > 0 or high < 0 else ", so that may be chance"
    if gap.paired:
        return (
            f"On the same {gap.asked} {items} these two checkpoints differ by {fixed(gap.printed)} (95 % interval "
            f"{span(gap.checkpoints)}, in pairs){chance}; {alone}."
        )
    return (
        f"With {gap.asked} {items} each, not paired, these two checkpoints differ by {fixed(gap.printed)} (95 % "
        f"interval {span(gap.checkpoints)}){chance}; {alone}."
    )


def _passed_on(choice: Choice, keys: list[str]) -> list[str]:
    """What later experiments inherit and why; nothing where there was no choice."""
    if choice.second is None:
        return []
    winner, said = label(choice.winner.values, keys), []
    if choice.default is not choice.declared:
        told = label(choice.declared.values, keys), label(choice.default.values, keys)
        said += [f"The default, {told[0]}, did not finish, so {told[1]} stands in for it."]
    if choice.lead is not None:
        role = "the default, " if choice.beaten is choice.default else ""
        beaten = f"{role}{label(choice.beaten.values, keys)}"
        said += [f"Decided: {winner} is passed on, ahead of {beaten}, by {_evidence(choice.lead, choice)}."]
    elif choice.best is choice.winner:
        said += [
            f"Passed on: {winner}" + (", which is the default as well." if choice.default is choice.declared else ".")
        ]
    ahead = choice.against_best
    if ahead is not None:
        kept = "the default is passed on" if choice.winner is choice.default else "the earlier one stays"
        best = label(choice.best.values, keys)
        said += [f"Undecided, so {kept}: {winner}. The lead of {best} over it is {_evidence(ahead, choice)}."]
    return said


def _evidence(gap: Comparison, choice: Choice) -> str:
    """`0.043 (95 % interval -0.020 to 0.106, …)`"""
    assumed = f", if seeds differ by a standard deviation of {number(gap.seed_noise)}, as seed_noise has it"
    return f"{fixed(gap.printed)} ({100 * choice.level:g} % interval {span(gap.settings)}" + (
        ")" if gap.several_seeds else f"{assumed})"
    )


def _unfinished(order: Sequence[Configuration]) -> list[str]:
    """For each configuration and kind of end: which seeds, after how many steps, and why."""
    keys, said = varying(order), []
    for one in order:
        statuses = dict.fromkeys(run.status for run in one.runs if run.status != "finished")
        for status in statuses:
            runs = [_end(run) for run in one.runs if run.status == status]
            said.append(f"{_capital(status)}: {label(one.values, keys)}, {listed(runs)}.")
    return said


def _end(run: Run) -> str:
    said = " ".join(run.reason.split())[:200].rstrip(".")
    return f"seed {run.seed} after {run.steps} steps" + (f" ({said})" if said else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
