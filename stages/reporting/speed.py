"""How fast each evaluation sampled, and how that compares with the base policy's on the same dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stages.reporting import wording
from stages.reporting.runs import measured

if TYPE_CHECKING:
    from stages.reporting.contents import Evaluated


def sentences(evaluations: Sequence[Evaluated]) -> Mapping[str, str]:
    """One for each evaluation by its name; "" where its speed was not measured."""
    return {one.name: _sentence(one, evaluations) for one in evaluations}


def _sentence(one: Evaluated, evaluations: Sequence[Evaluated]) -> str:
    here = _speed(one)
    if here is None:
        return ""
    said = f"{_rate(here)} examples per second of sampling, loading left out"
    base = baseline(one, evaluations)
    if base is None:
        return f"{said}."
    elsewhere = "" if base.hardware == one.hardware else ", which ran on other hardware"
    return f"{said}: {wording.fixed(here / _speed(base), 2)} times the rate of {base.name}{elsewhere}."


def baseline(one: Evaluated, evaluations: Sequence[Evaluated]) -> Evaluated | None:
    """The base policy's evaluation on the same dataset, of several the one with the same prompt, else the first; None
    where that is this one, or none was timed."""
    found = [
        other
        for other in evaluations
        if other.values.get("model", "base") == "base"
        and other.values.get("dataset") == one.values.get("dataset")
        and _speed(other) is not None
    ]
    alike = [other for other in found if other.values.get("prompt") == one.values.get("prompt")]
    own = any(other is one for other in found)
    base = next(iter(found if own else alike or found), None)
    return None if base is one else base


def _speed(one: Evaluated) -> float | None:
    value = one.metrics.get("examples_per_second")
    return value if measured(value) and value > 0 else None


def _rate(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
