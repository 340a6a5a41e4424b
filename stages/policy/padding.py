"""Ragged token lists as tensors. Padding goes on the right, where causal attention makes it invisible."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def right_pad(sequences: Sequence[Sequence[int]], pad: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Token lists as one int64 tensor [N, T], and their lengths [N]. The pad id is never looked at."""
    lengths = torch.tensor([len(s) for s in sequences], device=device)
    width = max((len(s) for s in sequences), default=0)
    rows = [[*s, *[pad] * (width - len(s))] for s in sequences]
    return torch.tensor(rows, dtype=torch.long, device=device), lengths
