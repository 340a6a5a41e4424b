"""From a decoder's last states to its logits, as its own forward pass makes them.

Most models' logits are head(states). Some divide them (Granite), multiply them (Cohere), bend them below a bound
(Gemma 2), leave out rows of the head, or change the states before it (MiniCPM3). None of that is known by name here:
a model's own forward pass is run with a head that keeps what it is given and answers numbers whose fate tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from stages.records import DataError

SATURATES = 2.0**100  # a head's output that any bound cuts off, and float32 still holds, scaled too


class Readout(NamedTuple):
    """Logits from the output h [..., V] of the head: softcap * tanh(scale * h / softcap), or scale * h without a
    softcap, of its first `size` rows."""

    scale: float
    softcap: float | None
    size: int

    def __call__(self, outputs: Tensor) -> Tensor:
        logits = outputs[..., : self.size]
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


_KNOWN: WeakKeyDictionary[PreTrainedModel, Readout] = WeakKeyDictionary()


def readout(model: PreTrainedModel) -> Readout:
    """What the model does to its head's output; found out once. Raises DataError where it is none of these."""
    if model not in _KNOWN:
        _KNOWN[model] = _found(model)
    return _KNOWN[model]


@torch.no_grad()
def _found(model: PreTrainedModel) -> Readout:
    head = head_of(model)
    told = torch.linspace(-64, 64, len(head.weight), dtype=torch.float32, device=head.weight.device)
    told[:2] = torch.tensor([2.0**-20, SATURATES])
    ids = torch.zeros(1, 1, dtype=torch.long, device=head.weight.device)
    answer = _run(model, told.view(1, 1, -1), input_ids=ids, use_cache=False)[1].logits.flatten().float()
    slope, most = (answer[:2] / told[:2].new_tensor([2.0**-20, 1.0])).tolist()
    bends = most < slope * SATURATES / 2
    found = Readout(slope, most if bends else None, len(answer))
    if not 0 < slope < float("inf") or not torch.allclose(found(told), answer, rtol=1e-4, atol=1e-4):
        raise DataError(
            f"{type(model).__name__}: what it does to its logits after the head is neither a scale nor a soft bound; "
            "choose another policy"
        )
    return found


def states(model: PreTrainedModel, **inputs: Any) -> tuple[Tensor, Any]:
    """What goes into the head, [..., H], and the cache of the model's own forward pass over `inputs`.

    No logits are computed. Everything else in the pass is the model's own. Raises DataError where that pass does not go
    through its head.
    """
    kept, output = _run(model, None, **inputs)
    return kept, getattr(output, "past_key_values", None)


def _run(model: PreTrainedModel, answer: Tensor | None, **inputs: Any) -> tuple[Tensor, Any]:
    """The forward pass in which the head answers `answer`, or else next to nothing: what the head got, and the rest."""
    kept: list[Tensor] = []

    def forward(given: Tensor) -> Tensor:
        kept.append(given)
        return given[..., :1] if answer is None else answer

    with _headed(head_of(model), forward):
        output = model.forward(**inputs)
    if len(kept) != 1:
        raise DataError(f"{type(model).__name__}: its logits do not come from one head; choose another policy")
    return kept[0], output


@contextmanager
def _headed(head: nn.Module, forward: Any) -> Iterator[None]:
    before = head.__dict__.get("forward")
    head.forward = forward
    try:
        yield
    finally:
        del head.forward
        if before is not None:
            head.forward = before


def head_of(model: PreTrainedModel) -> nn.Module:
    """The matrix [V, H] from states to logits, perhaps with a bias. Raises DataError naming the model without one."""
    head = model.get_output_embeddings()
    if not isinstance(getattr(head, "weight", None), Tensor) or head.weight.dim() != 2:
        raise DataError(f"{type(model).__name__}: it has no matrix from states to logits; choose another policy")
    return head
