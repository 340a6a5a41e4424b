"""Gradient norm, response length and steps without signal over a run, in one sentence each: what an ablation shows
besides its score."""

from __future__ import annotations

from collections.abc import Sequence

from stages.reporting import wording
from stages.reporting.runs import FINAL_ROWS, Configuration, by_value, column, final, mean

MOST_NAMED = 4


def trends(order: Sequence[Configuration]) -> list[str]:
    """For runs that train on what they sample (fine-tuning has no lengths of its own); [] for others."""
    found = [one for one in by_value(order) if any(column(run.train, "reward") for run in one.runs)]
    keys = wording.varying(order)
    norms = [(norm, one) for one in found if (norm := gradient_norm(one)) is not None]
    lengths = [(moved[1] - moved[0], moved, one) for one in found if (moved := length(one)) is not None]
    said = []
    if norms:
        listed = _listed([(norm, wording.fixed(norm), one) for norm, one in norms], keys)
        said.append(f"Gradient norm before clipping, mean over the run: {listed}.")
    if lengths:
        listed = _listed([(change, _from_to(moved), one) for change, moved, one in lengths], keys)
        said.append(f"Response length in training, first to last (means of {FINAL_ROWS} steps): {listed}.")
    return [*said, *skipped(found)]


def skipped(found: Sequence[Configuration]) -> list[str]:
    """How many optimiser steps of all runs had no signal; [] where all had one."""
    told = [value for one in found for run in one.runs for value in column(run.train, "skipped")]
    if not sum(told):
        return []
    share = wording.percent(sum(told) / len(told))
    return [f"No response had a signal in {sum(told)} of {len(told)} optimiser steps ({share}): they moved nothing."]


def gradient_norm(one: Configuration) -> float | None:
    """Mean over the optimiser steps of each run, then over seeds; steps where it was not finite are left out."""
    norms = [values for run in one.runs if (values := column(run.train, "gradient_norm"))]
    return mean(map(mean, norms)) if norms else None


def length(one: Configuration) -> tuple[float, float] | None:
    """Mean response length (tokens) of the first and of the last three steps, mean over seeds."""
    runs = [run.train for run in one.runs if column(run.train, "length")]
    if not runs:
        return None
    return mean(mean(column(rows, "length")[:FINAL_ROWS]) for rows in runs), mean(
        final(rows, "length") for rows in runs
    )


def _from_to(moved: tuple[float, float]) -> str:
    return f"{wording.fixed(moved[0], 1)} to {wording.fixed(moved[1], 1)} tokens"


def _listed(measured: Sequence[tuple[float, str, Configuration]], keys: Sequence[str]) -> str:
    """All of a few configurations, in the order of their values; of many, those at the two ends of the number alone."""
    if len(measured) > MOST_NAMED:
        by_size = sorted(measured, key=lambda entry: entry[0])
        low, high = (f"{text}{_of(one, keys)}" for _, text, one in (by_size[0], by_size[-1]))
        return f"at one end {low}, at the other {high}, of {len(measured)} configurations"
    return ", ".join(f"{text}{_of(one, keys)}" for _, text, one in measured)


def _of(one: Configuration, keys: Sequence[str]) -> str:
    """The values in brackets; one alone needs no key beside the sentence that names the winner's."""
    if len(keys) == 1:
        return f" ({wording.number(one.values[keys[0]])})"
    return f" ({wording.label(one.values, keys)})" if keys else ""
