"""Training state as safetensors and JSON: weights, optimiser moments, and whatever small facts the loop keeps.

The files hold whole tensors and look the same whatever number of processes wrote them, so that a run can go on with
another number.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from stages import sums
from stages.policy.sharding import split_like, weights_once, whole
from stages.records import DataError
from stages.store import write_json

MOMENTS = {  # what each optimiser keeps of a weight
    torch.optim.AdamW: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.RMSprop: {"step", "square_avg"},
}


def save_training(
    folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, facts: dict[str, Any]
) -> None:
    """Write `policy.safetensors`, `optimizer.safetensors`, `trainer.json` into a folder.

    Every process that holds a part has to call this; those without a `folder` write nothing.
    """
    state = optimizer.state_dict()["state"]
    moments = {f"{index}/{name}": value for index, entry in state.items() for name, value in entry.items()}
    files = {"policy.safetensors": weights_once(model), "optimizer.safetensors": moments}
    for name, tensors in files.items():
        gathered = {}
        for key, tensor in tensors.items():
            value = whole(tensor.detach())
            if folder:
                gathered[key] = value.cpu().contiguous()
        if folder:
            save_file(gathered, folder / name)
    if folder:
        write_json(folder / "trainer.json", facts)
        sums.seal(folder)


def load_training(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Put a state written by `save_training` back, bit for bit; returns the facts. Raises DataError naming a file that
    is not as it was written."""
    steps = folder.name.removeprefix("step_").lstrip("0")
    advice = f"delete the state folder {folder.parent} and run again: its {steps} steps are then lost"
    sums.check(folder, advice, required=True)
    try:
        _fill(weights_once(model), load_file(folder / "policy.safetensors"))
        state = _moments(load_file(folder / "optimizer.safetensors"), optimizer)
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return json.loads((folder / "trainer.json").read_text())
    except Exception as error:  # safetensors raises its own, undeclared types
        raise DataError(f"{folder}: not a usable training state ({error}); {advice}") from error


def _moments(values: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    """The optimiser's state of each weight, split as the weight is. Raises ValueError where one lacks a moment, has
    another optimiser's, or of another weight."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in values.items():
        index, name = key.split("/")
        state.setdefault(int(index), {})[name] = split_like(value, parameters[int(index)])
    for index, entry in state.items():
        shapes = {name: tuple(value.shape) for name, value in entry.items() if name != "step"}
        if entry.keys() != MOMENTS[type(optimizer)] or set(shapes.values()) != {tuple(parameters[index].shape)}:
            raise ValueError(f"moments that are not of weight {index}: {shapes}")
    return state


@torch.no_grad()
def _fill(weights: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    if weights.keys() != values.keys():
        raise ValueError(f"weights of another model: {', '.join(sorted(weights.keys() ^ values.keys())[:3])}, …")
    for name, weight in weights.items():
        weight.copy_(split_like(values[name], weight))
