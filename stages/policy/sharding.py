"""Weights, gradients and moments split over processes: PyTorch's FSDP2 (ZeRO-3, arXiv 1910.02054), one unit per layer.

What is kept is float32, whatever the model computes in. At the learning rates of this work (1e-6 to 1e-5) one step
moves a weight by less than half of bfloat16's spacing, so that weights kept in bfloat16 would stay where they are; here
a bfloat16 copy of a layer lives while the layer runs, and gradients are summed in float32. One process alone computes
in bfloat16 in this way too: its numbers are then those of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from stages.policy import processes

Result = TypeVar("Result")


def decoder_layers(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks of any Transformers decoder."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def shard(model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Split the float32 weights of `model` over the processes, in place and onto `device`; it computes in `dtype`.

    Gradients are summed over the processes: each one's loss is its part of the batch's.
    """
    mesh = init_device_mesh(device.type, (processes.count(),))
    precision = MixedPrecisionPolicy(None if dtype == torch.float32 else dtype, reduce_dtype=torch.float32)
    for module in (*decoder_layers(model), model):
        fully_shard(module, mesh=mesh, mp_policy=precision)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
    model.within_forward = MethodType(lambda self, function: function(), model)
    register_fsdp_forward_method(model, "within_forward")


def within_forward(model: nn.Module, function: Callable[[], Result]) -> Result:
    """`function()`, which runs parts of `model` (the decoder, the head's weight), as one forward pass of the whole.

    The weights outside of the layers (embedding, last norm, head; tied or not) are whole within it alone.
    """
    if not isinstance(model, FSDPModule):
        return function()
    result = model.within_forward(function)
    if not torch.is_grad_enabled():
        model.reshard()  # which else the backward pass does; an update would go unseen by weights that stay whole
    return result


def all_agree(model: nn.Module, choice: bool) -> bool:
    """Whether every process that `model` is split over makes this choice, which decides how often its layers run.

    A layer's weights are fetched by all of them together: were they to run it more or less often, they would wait for
    each other without end.
    """
    return all(processes.gather(choice)) if isinstance(model, FSDPModule) else choice


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that may be split. Every process has to ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def split_like(tensor: Tensor, example: Tensor) -> Tensor:
    """This process's part of a tensor that all of them have, split as `example` is; as it is where that is not."""
    if not isinstance(example, DTensor) or tensor.shape != example.shape:
        return tensor
    tensor = tensor.to(example.device)
    return distribute_tensor(tensor, example.device_mesh, example.placements, src_data_rank=None)


def weights_once(model: nn.Module) -> dict[str, Tensor]:
    """Every weight, which may be split, under the first of its names: a tied one is there once."""
    named = model.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(named.items())}
    return {name: named[name] for name in named if first[id(named[name])] == name}


def full_weights(model: nn.Module, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
    """Whole weights by name, one at a time, in `dtype`, tied ones under each of their names.

    What a sampler takes over. Every process has to go through all of it.
    """
    for name, tensor in model.state_dict().items():
        yield name, whole(tensor.detach().to(dtype or tensor.dtype))


class Follower:
    """In place of an engine where another process samples: takes its part in gathering the weights, in `dtype`."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def sync(self, model: nn.Module) -> None:
        for _ in full_weights(model, self.dtype):
            pass

    def generate(self, *_: Any) -> None:
        raise RuntimeError("only the first process samples")
