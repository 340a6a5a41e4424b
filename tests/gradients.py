"""What two ways to compute one thing have in common: the gradient of a step, and on the whole the way of several.

Single weights are not: where a gradient is near 0, rounding decides its sign, and with it which way Adam moves
the weight, by the whole learning rate.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


class Recorder(torch.optim.SGD):
    """Keeps the gradient it was asked to apply."""

    def step(self, closure=None):
        self.gradient = torch.cat([p.grad.flatten() for p in self.param_groups[0]["params"]])
        return super().step(closure)


def assert_same_gradient(found: Tensor, expected: Tensor, within: float = 1e-5) -> None:
    """No element is off by more than the part `within` of the largest: log-probabilities are float32 in any model."""
    largest = expected.abs().max()
    assert largest > 0
    assert (found - expected).abs().max() <= within * largest


def assert_same_way(start: Path, found: Path, expected: Path, within: float = 0.01) -> None:
    """Two checkpoints, however many steps of Adam led to them: on the mean over all weights they lie apart by no more
    than the part `within` of the way from `start`. The few that rounding sends the other way weigh little there."""
    whence, one, other = (load_file(folder / "model.safetensors") for folder in (start, found, expected))
    assert one.keys() == other.keys()
    apart, way = (sum((a[key] - b[key]).abs().sum() for key in b) for a, b in ((one, other), (whence, other)))
    assert way > 0
    assert apart <= within * way
