"""The two ways to attend to parts that rows share: the same numbers, in every dtype; and packed rows."""

from __future__ import annotations

import pytest
import torch

from stages.policy import shared_attention
from stages.policy.scoring import make_sequences, score
from stages.policy.shared_attention import Packing, Part, Parts, attend_in_parts, attend_joined
from stages.policy.shared_prompt import padding_bias
from tests.policy.test_scoring import batch
from tests.tiny import MODELS

ROWS, HEADS, KV_HEADS, LENGTH, SIZE, TEMPLATE, PROMPT = 6, 4, 2, 7, 8, 3, 5


def random_parts(lengths: list[int], dtype: torch.dtype) -> tuple[torch.Tensor, Parts]:
    """A template, prompts of the given lengths, and responses."""
    generator = torch.Generator().manual_seed(0)

    def states(runs: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.randn(KV_HEADS, runs, length, SIZE, generator=generator).to(dtype) for _ in range(2))

    query = torch.randn(ROWS, HEADS, LENGTH, SIZE, generator=generator).to(dtype)
    bias = padding_bias(torch.tensor(lengths), PROMPT, dtype)
    causal = torch.full((LENGTH, LENGTH), float("-inf"), dtype=dtype).triu_(1)
    return query, [
        Part(*states(1, TEMPLATE), None),
        Part(*states(len(lengths), PROMPT), bias),
        Part(*states(ROWS, LENGTH), causal),
    ]


def textbook(query: torch.Tensor, parts: Parts, lengths: list[int]) -> torch.Tensor:
    """[B, T, H, D], one row, one head, one position at a time, over the keys that it may see."""
    out = torch.empty(ROWS, LENGTH, HEADS, SIZE, dtype=torch.float64)
    for row in range(ROWS):
        group = row // (ROWS // len(lengths))
        for head in range(HEADS):
            kv = head // (HEADS // KV_HEADS)
            for at in range(LENGTH):
                seen = zip((0, group, row), (TEMPLATE, lengths[group], at + 1), parts, strict=True)
                pairs = [(part.keys[kv, run, :end], part.values[kv, run, :end]) for run, end, part in seen]
                keys, values = (torch.cat(each).double() for each in zip(*pairs, strict=True))
                weights = (keys @ query[row, head, at].double() * SIZE**-0.5).softmax(0)
                out[row, at, head] = weights @ values
    return out


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("lengths", [[PROMPT], [PROMPT, 2, 4], [PROMPT, PROMPT]])
@pytest.mark.parametrize("path", [attend_joined, attend_in_parts])
def test_attention_is_the_textbooks(path, lengths, dtype, tolerance):
    query, parts = random_parts(lengths, dtype)
    expected = textbook(query, parts, lengths)
    torch.testing.assert_close(path(query, parts, SIZE**-0.5).double(), expected, atol=tolerance, rtol=tolerance)


def test_packed_rows_come_back_as_they_were():
    mask = torch.arange(4)[None] < torch.tensor([3, 0, 4])[:, None]
    rows = torch.randn(3, 4, 2, 5) * mask[..., None, None]  # [B, T, H, D]
    packing = Packing(mask)
    packed = packing.pack(rows)
    assert packed.shape == (1, 7, 2, 5)
    assert torch.equal(packing.unpack(packed.transpose(1, 2)), rows.transpose(1, 2))


def test_layers_compute_no_padding_of_responses():
    model, widths = MODELS["qwen"](), []
    for layer in model.base_model.layers:
        layer.mlp.register_forward_pre_hook(lambda _, inputs: widths.append(inputs[0].shape[:2]))
    sequences = make_sequences([[5, 9], [5, 8]], [[3], [4, 5, 6, 7], [8, 9], [3]], "cpu")
    score(model, sequences, temperature=1.0, shared=True)
    assert set(widths[-len(model.base_model.layers) :]) == {(1, 3 + 1)}  # no response's last token predicts one


@pytest.mark.parametrize("path", [attend_joined, attend_in_parts])
@pytest.mark.parametrize("name", MODELS)
def test_in_bfloat16_the_shared_path_is_as_exact_as_the_plain_one(name, path, monkeypatch):
    """Both are rounded; neither may be further from the float32 values than rounding explains."""
    monkeypatch.setattr(shared_attention, "attend_in_parts", path)
    exact = score(MODELS[name](), batch(), temperature=1.0, shared=False)[0]
    model = MODELS[name]().bfloat16()
    gaps = {}
    for shared in (False, True):
        found = score(model, batch(), temperature=1.0, shared=shared)[0]
        assert found.dtype == torch.float32
        gaps[shared] = (found - exact).abs()[batch().response_mask].mean().item()
    assert gaps[False] < 0.1
    assert gaps[True] < 1.5 * gaps[False]


@pytest.mark.parametrize("name", MODELS)
def test_the_joined_path_has_the_gradients_of_the_plain_one(name, monkeypatch):
    monkeypatch.setattr(shared_attention, "attend_in_parts", attend_joined)
    gradients = []
    for shared in (False, True):
        model = MODELS[name]().double()
        score(model, batch(), temperature=1.0, shared=shared)[0].sum().backward()
        gradients.append({key: p.grad for key, p in model.named_parameters()})
    for key, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], expected, atol=2e-5, rtol=1e-4, msg=key)
