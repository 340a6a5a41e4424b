"""The two ways to attend to prompt and response: the same numbers, in every dtype."""

from __future__ import annotations

import pytest
import torch

from stages.policy import shared_prompt
from stages.policy.scoring import score
from stages.policy.shared_prompt import Split, attend_in_parts, attend_joined, prompt_bias
from tests.policy.test_scoring import batch
from tests.tiny import MODELS

ROWS, HEADS, KV_HEADS, LENGTH, SIZE, PROMPT = 6, 4, 2, 7, 8, 5


def random_parts(groups: int, dtype: torch.dtype) -> tuple[torch.Tensor, Split, Split]:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(ROWS, heads, LENGTH, SIZE, generator=generator).to(dtype) for heads in (HEADS, KV_HEADS, KV_HEADS)
    )
    prompts = [torch.randn(groups, KV_HEADS, PROMPT, SIZE, generator=generator).to(dtype) for _ in range(2)]
    lengths = torch.tensor([PROMPT, 2, 4][:groups])
    bias = prompt_bias(lengths, PROMPT, dtype)
    causal = torch.full((LENGTH, LENGTH), float("-inf"), dtype=dtype).triu_(1)
    return query, Split(prompts[0], key, bias, causal), Split(prompts[1], value, bias, causal)


def textbook(query: torch.Tensor, key: Split, value: Split) -> torch.Tensor:
    """One row, one head, one position at a time, over the keys that it may see."""
    out = torch.empty(query.shape, dtype=torch.float64)
    per_group = ROWS // len(key.prompt)
    for row in range(ROWS):
        group = row // per_group
        seen = int((key.prompt_bias[group] == 0).sum())
        for head in range(HEADS):
            kv = head // (HEADS // KV_HEADS)
            for at in range(LENGTH):
                keys = torch.cat([key.prompt[group, kv, :seen], key.response[row, kv, : at + 1]]).double()
                values = torch.cat([value.prompt[group, kv, :seen], value.response[row, kv, : at + 1]]).double()
                weights = (keys @ query[row, head, at].double() * SIZE**-0.5).softmax(0)
                out[row, head, at] = weights @ values
    return out


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("path", [attend_joined, attend_in_parts])
def test_attention_is_the_textbooks(path, groups, dtype, tolerance):
    query, key, value = random_parts(groups, dtype)
    expected = textbook(query, key, value)
    torch.testing.assert_close(path(query, key, value, SIZE**-0.5).double(), expected, atol=tolerance, rtol=tolerance)


def through(path):
    """`attend` on a device where `path` is the one taken."""

    def attend(module, query, key, value, attention_mask=None, scaling=None, **_):
        return path(query, key, value, scaling).transpose(1, 2).contiguous(), None

    return attend


@pytest.mark.parametrize("path", [attend_joined, attend_in_parts])
@pytest.mark.parametrize("name", MODELS)
def test_in_bfloat16_the_shared_path_is_as_exact_as_the_plain_one(name, path, monkeypatch):
    """Both are rounded; neither may be further from the float32 values than rounding explains."""
    monkeypatch.setitem(shared_prompt.AttentionInterface._global_mapping, shared_prompt.NAME, through(path))
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
    gradients = []
    for shared in (False, True):
        monkeypatch.setitem(
            shared_prompt.AttentionInterface._global_mapping, shared_prompt.NAME, through(attend_joined)
        )
        model = MODELS[name]().double()
        score(model, batch(), temperature=1.0, shared=shared)[0].sum().backward()
        gradients.append({key: p.grad for key, p in model.named_parameters()})
    for key, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], expected, atol=2e-5, rtol=1e-4, msg=key)
