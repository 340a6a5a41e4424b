"""What was spent: GPU-hours of the jobs that had GPUs, core-hours of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stages.reporting import wording

HEADER = ("what", "jobs", "time, added up", "GPU-hours", "core-hours without a GPU")


@dataclass(frozen=True)
class Account:
    """What some jobs took together. `unknown`: how many of them do not say on what they ran."""

    jobs: int = 0
    seconds: float = 0.0
    gpu_hours: float = 0.0
    core_hours: float = 0.0
    unknown: int = 0


def of_job(seconds: float, facts: Mapping[str, Any]) -> Account:
    """`facts` has the job's `gpus` and `cores`, from its status or its provenance."""
    gpus, cores = facts.get("gpus"), facts.get("cores")
    if gpus is None or cores is None:
        return Account(1, seconds, unknown=1)
    return Account(1, seconds, gpus * seconds / 3600, 0.0 if gpus else cores * seconds / 3600)


def total(accounts: Iterable[Account]) -> Account:
    listed = list(accounts)
    return Account(
        sum(one.jobs for one in listed),
        sum(one.seconds for one in listed),
        sum(one.gpu_hours for one in listed),
        sum(one.core_hours for one in listed),
        sum(one.unknown for one in listed),
    )


def words(one: Account) -> str:
    """`3.2 GPU-hours`, or `0.14 core-hours without a GPU`, or both; and of how many jobs nothing is known."""
    parts = [f"{number(one.gpu_hours)} GPU-hours"] if one.gpu_hours else []
    parts += [f"{number(one.core_hours)} core-hours without a GPU"] if one.core_hours else []
    said = " and ".join(parts) or "nothing"
    return said + (f"; {one.unknown} of {one.jobs} jobs do not say on what they ran" if one.unknown else "")


def sentence(one: Account) -> str:
    """For one experiment: `Spent: 3.2 GPU-hours in 4 runs.`"""
    return f"Spent: {words(one)} ({one.jobs} {'run' if one.jobs == 1 else 'runs'}, {wording.duration(one.seconds)})."


def table(accounts: Mapping[str, Account]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: each entry, then all of them together."""
    named = {**accounts, "all": total(accounts.values())}
    rows = [
        [name, str(one.jobs), wording.duration(one.seconds), number(one.gpu_hours), number(one.core_hours)]
        for name, one in named.items()
    ]
    return list(HEADER), rows


def number(hours: float) -> str:
    """Two digits that mean something: <0.001, 0.014, 0.5, 3.2, 48, 1,204."""
    if 0 < hours < 0.001:
        return "<0.001"
    if hours >= 10:
        return f"{hours:,.0f}"
    return f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"
