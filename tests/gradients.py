"""The gradient of an optimiser step, which is what two ways to compute one step have in common.

Adam's step is not: where a gradient is near 0, rounding decides its sign, and with it which way the weight goes by the
whole learning rate.
"""

from __future__ import annotations

import torch
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
