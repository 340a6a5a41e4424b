import math

import pytest
import torch

from stages.algorithm.reductions import masked_mean, masked_normalize

VALUES = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
MASK = torch.tensor([[True, True, False], [False, True, True]])


def test_masked_mean_by_hand():
    assert masked_mean(VALUES, MASK, dim=-1).tolist() == [1.5, 5.5]
    assert masked_mean(VALUES, MASK, dim=0).tolist() == [1.0, 3.5, 6.0]
    assert masked_mean(VALUES, MASK).item() == (1 + 2 + 5 + 6) / 4


def test_masked_normalize_by_hand():
    assert masked_normalize(VALUES, MASK, dim=-1, normalize_constant=4).tolist() == [0.75, 2.75]
    assert masked_normalize(VALUES, MASK, dim=0).tolist() == [1.0, 7.0, 6.0]
    assert masked_normalize(VALUES, MASK, normalize_constant=7).item() == 2.0


def test_a_zero_one_mask_of_any_dtype_is_a_mask():
    for dtype in (torch.float32, torch.int64):
        assert torch.equal(masked_mean(VALUES, MASK.to(dtype), dim=0), masked_mean(VALUES, MASK, dim=0))


def test_an_empty_mask_has_no_mean_but_a_sum():
    mask = torch.tensor([[True, True, True], [False, False, False]])
    mean = masked_mean(VALUES, mask, dim=-1)
    assert mean[0] == 2.0
    assert math.isnan(mean[1])
    assert masked_normalize(VALUES, mask, dim=-1).tolist() == [6.0, 0.0]


def test_masked_out_infinities_reach_neither_value_nor_gradient():
    values = torch.tensor([[1.0, math.inf, math.nan], [3.0, -math.inf, 5.0]], requires_grad=True)
    mask = torch.tensor([[True, False, False], [True, False, True]])
    mean = masked_mean(values, mask, dim=-1)
    mean.sum().backward()
    assert mean.tolist() == [1.0, 4.0]
    assert values.grad.tolist() == [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]


def test_a_mask_of_another_shape_is_refused_before_it_broadcasts():
    with pytest.raises(ValueError, match=r"\(2, 1\).*\(2, 3\)"):
        masked_mean(VALUES, MASK[:, :1])
