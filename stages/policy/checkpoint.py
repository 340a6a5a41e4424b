"""Training state as safetensors and JSON: weights, optimiser moments, and whatever small facts the loop keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

from stages.records import DataError
from stages.store import write_json


def save_training(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, facts: dict[str, Any]) -> None:
    """Write `policy.safetensors`, `optimizer.safetensors`, `trainer.json` into a folder."""
    save_model(model, str(folder / "policy.safetensors"))
    state = optimizer.state_dict()["state"]
    moments = {f"{index}/{name}": value for index, entry in state.items() for name, value in entry.items()}
    save_file({key: value.contiguous() for key, value in moments.items()}, folder / "optimizer.safetensors")
    write_json(folder / "trainer.json", facts)


def load_training(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put a state written by `save_training` back, bit for bit; returns the facts."""
    try:
        load_model(model, str(folder / "policy.safetensors"))
        moments = load_file(folder / "optimizer.safetensors")
        facts = json.loads((folder / "trainer.json").read_text())
    except Exception as error:  # safetensors raises its own, undeclared types
        raise DataError(f"{folder}: not a usable training state ({error}); delete it and run again") from error
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in moments.items():
        index, name = key.split("/")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return facts
