"""Masked reductions: the two sides of the length-normalisation question.

`masked_mean` divides by the tokens that are there (DeepSeekMath, arXiv 2402.03300, eq. 3: the factor
1/|o_i|); `masked_normalize` divides by a constant that does not depend on the response (Dr. GRPO, arXiv
2503.20783, section 3.2).

Both select with `torch.where` and not by multiplication: whatever stands at a masked-out position,
infinities and NaNs included, stays out of the result.
"""

import torch
from torch import Tensor


def masked_mean(tensor: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Mean of the elements where `mask` is true, along `dim`, or over all of them if `dim` is None.

    `mask` has the shape of `tensor` (bool, or 0/1). The result has the shape of `tensor` without `dim`, or
    is a scalar. Where nothing is masked in, the mean is 0/0 = NaN; a caller that may meet an empty response
    guards for it.
    """
    return masked_sum(tensor, mask, dim) / _count(mask, dim)


def masked_normalize(tensor: Tensor, mask: Tensor, dim: int | None = None, normalize_constant: float = 1.0) -> Tensor:
    """Sum of the elements where `mask` is true, along `dim` (None: all), divided by `normalize_constant`.

    Shapes as in `masked_mean`. An empty mask gives 0.
    """
    return masked_sum(tensor, mask, dim) / normalize_constant


def masked_sum(tensor: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Sum of the elements where `mask` is true, along `dim` (None: over all)."""
    if mask.shape != tensor.shape:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}, the tensor it masks {tuple(tensor.shape)}; they must agree"
        )
    kept = torch.where(mask.bool(), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))
    return kept.sum() if dim is None else kept.sum(dim)


def _count(mask: Tensor, dim: int | None) -> Tensor:
    return mask.bool().sum() if dim is None else mask.bool().sum(dim)
