"""One results folder, one preset: what a long job computed is never overwritten by running another config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from stages.sources import ModelSource
from workflow.schema import Config
from workflow.specs import write_if_changed


def identity(config: Config) -> dict[str, Any]:
    """What must not change under a results folder: the preset's name, the starting policy, the kinds of its data.

    Values are left out on purpose. Another dataset size, pretraining length, learning rate or experiment is the
    ordinary edit that this workflow is for, and re-runs what depends on it. Another starting policy, or another kind
    of data under a known name, would silently replace everything: that is a preset of its own.
    """
    kinds = {name: source.source for name, source in config.data.items()}
    return {"preset": config.preset, "model": _policy(config.model), "data": kinds}


def _policy(model: ModelSource) -> str:
    if model.path is not None:
        return f"path {model.path}"
    if model.hub is not None:
        return f"hub {model.hub}" + (f"@{model.revision}" if model.revision else "")
    return "pretrain" if model.shipped is None else f"shipped {model.shipped}"


def check(config: Config) -> None:
    """Raise WorkflowError if the results folder belongs to another preset. Reads only."""
    file = record(config)
    if not file.exists():
        return
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
        differences = _differences(there, identity(config))
    except (ValueError, KeyError, TypeError):
        raise WorkflowError(f"{file} cannot be read; delete it if {config.results} is of {config.preset}") from None
    if differences:
        raise WorkflowError(
            f"{config.results} holds results of another preset, which this run would overwrite:\n"
            + "".join(f"  {key}: {old} there, {new} in the config\n" for key, old, new in differences)
            + f"Write elsewhere:          add --config results={config.results}-{config.preset} to the command\n"
            + f"or move the old results:  mv {config.results} {config.results}-{there['preset']}-old"
        )


def claim(config: Config) -> None:
    """Record whose results folder this is; called when jobs are about to run, never by a dry run."""
    write_if_changed(record(config), identity(config))


def record(config: Config) -> Path:
    return Path(config.results) / "preset.json"


def _differences(there: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(key, recorded, configured) where they differ. A dataset that one of them lacks is no difference."""
    shared = [name for name in now["data"] if name in there["data"]]
    pairs = [(key, there[key], now[key]) for key in ("preset", "model")]
    pairs += [(f"data.{name}.source", there["data"][name], now["data"][name]) for name in shared]
    return [(key, old, new) for key, old, new in pairs if old != new]
