"""Numbers and outcomes in words: labels, intervals, and the sentence that says which configuration won."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages.reporting import statistics
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
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


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


def outcome(order: Sequence[Configuration]) -> str:
    """Which configuration won, by how much, over which seeds, and whether that is more than noise.

    `order` is `runs.ranked(...)`. Every number in it stands in the table of the experiment.
    """
    best, keys, measure = order[0], varying(order), order[0].measure
    start = column([{"start": run.start} for run in best.runs], "start")
    reached = f"{fixed(best.score)} ({seeds(best)}{spread(best)})"
    reached += f", from {fixed(mean(start))} before training" if start else ""
    if len(order) == 1:
        said = [f"{_capital(measure.when)} validation {measure.words} {reached}."]
    else:
        said = [f"Best: {label(best.values, keys)}, with a {measure.when} validation {measure.words} of {reached}."]
        said += [_lead(best, order[1], keys)]
    if not best.finished:
        said += ["No configuration finished all its runs, so this one is ranked by what it reached."]
    return " ".join([*said, *_unfinished(order)])


def _lead(best: Configuration, second: Configuration, keys: list[str]) -> str:
    name = f"{label(second.values, keys)} ({fixed(second.score)}{spread(second)})"
    printed = round(best.score, 3), round(second.score, 3)  # which the reader can subtract
    lead = best.measure.ahead(*printed)
    if not second.finished and best.finished:
        return f"No other configuration finished; the next, {name}, is ranked by what it reached before it stopped."
    if abs(best.score - second.score) < 5e-13:
        return f"It ties with {name}; the order of their names decides."
    if lead < 5e-4:
        return f"It leads {name} by less than 0.001. {_trust(best, second)}"
    return f"It leads {name} by {fixed(lead)}. {_trust(best, second)}"


def _trust(best: Configuration, second: Configuration) -> str:
    """The seeds' ranges where there are several, else the sampling error of the validation set."""
    if min(len(best.scores), len(second.scores)) > 1:
        higher = best.measure.higher_is_better
        gap = min(best.scores) - max(second.scores) if higher else min(second.scores) - max(best.scores)
        if gap <= 0:
            return "The ranges of their seeds overlap, so the order may be chance."
        orders = math.comb(len(best.scores) + len(second.scores), len(best.scores))
        widest = max(max(scores) - min(scores) for scores in (best.scores, second.scores))
        by_chance = f"between equals one time in {orders / 2:g}"  # two of the orders set them apart
        return (
            f"Every seed of the best scores {'above' if higher else 'below'} every seed of the second ({by_chance}); "
            f"the gap is {fixed(gap)}, while seeds of one setting differ by up to {fixed(widest)}."
        )
    questions = min((column(run.validation, "num_examples") or [0])[-1] for run in (best.runs[0], second.runs[0]))
    if not questions or not best.measure.items:
        return "One seed each: the order may be chance."
    low = statistics.wilson(best.score * questions, questions)[0]
    high = statistics.wilson(second.score * questions, questions)[1]
    verdict = "do not overlap" if low > high else "overlap, so the order may be chance"
    return f"One seed; with {questions} validation {best.measure.items} the 95 % intervals of the two {verdict}."


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
