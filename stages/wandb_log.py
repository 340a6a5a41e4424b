"""Metrics to Weights & Biases as well, where the variable WANDB_PROJECT is set.

The declared outputs are metrics.parquet; this is a second copy for watching. Whatever goes wrong with it is said once
and stops no run. Everything else (WANDB_MODE=offline, WANDB_ENTITY, …) is wandb's own to read.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stages import console
from stages.store import write_text

Row = dict[str, Any]
Log = Callable[[Sequence[Row]], None]


def open_log(name: str, state: Path, values: Row) -> Log:
    """A function that takes METRICS rows: `train/loss`, `validation/answer_reward` and their like, against `step`.

    name: `experiment/key=value/…`. state: the run's folder for unfinished work; it keeps the run's id, so that a run
    that was interrupted goes on under the same one.
    """
    if not os.environ.get("WANDB_PROJECT"):
        return _nothing
    try:
        import wandb

        run = wandb.init(
            name=name, id=_kept_id(state / "wandb_id"), group=name.split("/")[0], config=values, resume="allow"
        )
        for kind in ("train", "validation"):
            run.define_metric(f"{kind}/*", step_metric=f"{kind}/step")
    except Exception as error:  # not installed, no login, no network: wandb raises a class of its own for each
        return _given_up(error)
    return _forgiving(lambda rows: [run.log(_columns(row)) for row in rows])


def _kept_id(file: Path) -> str:
    if not file.exists():
        write_text(file, secrets.token_hex(8))
    return file.read_text()


def _columns(row: Row) -> Row:
    return {f"{row['kind']}/{key}": value for key, value in row.items() if key != "kind" and value is not None}


def _forgiving(log: Log) -> Log:
    """The same, until it raises for the first time."""

    def attempt(rows: Sequence[Row]) -> None:
        nonlocal log
        try:
            log(rows)
        except Exception as error:
            log = _given_up(error)

    return attempt


def _given_up(error: Exception) -> Log:
    text = str(error).strip().splitlines() or [""]
    console.say(
        f"Weights & Biases: {type(error).__name__}: {text[0]}. The run goes on without it; its metrics are in "
        "metrics.parquet. (WANDB_PROJECT asks for it; it is installed by pip install -c constraints.txt -e '.[wandb]')"
    )
    return _nothing


def _nothing(rows: Sequence[Row]) -> None:
    pass
