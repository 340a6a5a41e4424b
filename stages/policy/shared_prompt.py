"""Attention in which a group's prompt is held, and computed, once.

The G responses of one prompt see the same prompt keys and values. Repeating them G times (what a batch of whole
sequences does) costs G times the prompt's forward pass in training, and G copies of its cache in sampling. Here the
prompt runs once per group, and a template that all prompts begin with once per batch, through any decoder whose
attention goes by Transformers' AttentionInterface; the responses then attend to two parts, the group's prompt and
their own tokens, under one softmax. The result is the same function of the weights, gradients included: only the order
of floating-point sums differs.

On a GPU a training pass hands both parts, joined per row, to PyTorch's fused attention, which never holds the scores
[B, H, T, P + T]; elsewhere, and while decoding, the prompt's part is one matrix product per group. No cache here is
changed by running a layer twice, so layers can be recomputed in the backward pass (gradient checkpointing).

Shapes: N prompts of up to P tokens (right-padded), B = N * G responses, K key-value heads, D head size. Rows of one
group are adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import Cache

from stages.policy.sharding import all_agree

NAME = "shared_prompt"


class Split(NamedTuple):
    """Keys (or values) of both parts: prompt [N, K, P, D], response [B, K, S, D], and the masks to add to scores."""

    prompt: Tensor
    response: Tensor
    prompt_bias: Tensor  # [N, 1, 1, P]: 0 at prompt tokens, -inf at padding
    response_bias: Tensor | None  # [T, S] causal; None while decoding one token, which sees all of its response


class PromptStates(NamedTuple):
    """One layer's keys and values of the prompts, [N, K, P, D] each."""

    keys: Tensor
    values: Tensor


def prompt_bias(lengths: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Additive mask [N, 1, 1, P] over right-padded prompts of the given `lengths` [N]."""
    padding = torch.arange(width, device=lengths.device)[None] >= lengths[:, None]
    bias = torch.zeros(padding.shape, dtype=dtype, device=lengths.device).masked_fill_(padding, float("-inf"))
    return bias[:, None, None, :]


def run_prompts(model: PreTrainedModel, ids: Tensor, lengths: Tensor) -> tuple[Tensor, list[PromptStates]]:
    """The state [N, H] after each of the prompts `ids` [N, P] of the given `lengths` [N], and every layer's states.

    What all prompts begin with (a template) runs once for the whole batch. Graphs are kept if there are any.
    """
    template, hidden = PromptCache([]), None
    shared = common_prefix(ids, lengths)
    if not all_agree(model, shared > 0):
        shared = 0
    if shared:
        hidden = model.base_model(input_ids=ids[:1, :shared], past_key_values=template, use_cache=True)[0]
    cache = PromptCache(template.states)
    rest = model.base_model(input_ids=ids[:, shared:], past_key_values=cache, use_cache=True)[0]
    if hidden is not None:  # part of the result, though never looked at: FSDP fetches weights for what leads there
        rest = torch.cat([hidden.expand(len(ids), -1, -1), rest], dim=1)
    return rest[torch.arange(len(ids), device=ids.device), lengths - 1], cache.states


def common_prefix(ids: Tensor, lengths: Tensor) -> int:
    """How many first tokens are the same in all prompts [N, P]; each keeps a last one of its own. 0 for one prompt."""
    if len(ids) == 1:
        return 0
    most = int(lengths.min()) - 1
    return int((ids[:, :most] == ids[:1, :most]).all(0).long().cumprod(0).sum())


class PromptCache(Cache):
    """For one forward pass over prompts: keeps every layer's states, after those of the template `before` them."""

    def __init__(self, before: list[PromptStates]) -> None:
        super().__init__(layers=[])
        self.before = before
        self.states: list[PromptStates] = []

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object) -> PromptStates:
        if self.before:
            rows = len(key_states)
            keys, values = (states.expand(rows, -1, -1, -1) for states in self.before[layer_idx])
            key_states, value_states = torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2)
        if layer_idx == len(self.states):  # a layer that is recomputed was kept the first time
            self.states.append(PromptStates(key_states, value_states))
        return PromptStates(key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.before[0].keys.shape[2] if self.before else 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return self.get_seq_length()


class TrainingCache(Cache):
    """For one forward pass over whole responses of up to T tokens: every layer answers with the prompt's states and
    this pass's own."""

    def __init__(self, prompts: list[PromptStates], bias: Tensor, length: int) -> None:
        super().__init__(layers=[])
        self.prompts = prompts
        self.bias = bias
        self.causal = torch.full((length, length), float("-inf"), dtype=bias.dtype, device=bias.device).triu_(1)

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object) -> tuple[Split, Split]:
        keys, values = self.prompts[layer_idx]
        return Split(keys, key_states, self.bias, self.causal), Split(values, value_states, self.bias, self.causal)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0


class DecodingCache(Cache):
    """For sampling token by token: response states go into buffers of fixed size, so nothing is copied per step.

    `keep` drops rows that have finished. Rows stay grouped: each prompt keeps the same number of rows, and a group
    that has fewer repeats one of its own (its output is ignored).
    """

    def __init__(self, prompts: list[PromptStates], bias: Tensor, rows: int, capacity: int) -> None:
        super().__init__(layers=[])
        self.prompts = prompts
        self.bias = bias
        self.capacity = capacity
        self.length = 0
        self.buffers: dict[int, PromptStates] = {}
        self.rows = rows

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object) -> tuple[Split, Split]:
        if layer_idx not in self.buffers:
            rows, heads, _, size = key_states.shape
            shape = (rows, heads, self.capacity, size)
            self.buffers[layer_idx] = PromptStates(key_states.new_empty(shape), value_states.new_empty(shape))
        keys, values = self.buffers[layer_idx]
        at = self.length
        keys[:, :, at : at + 1] = key_states
        values[:, :, at : at + 1] = value_states
        seen = at + 1
        prompt = self.prompts[layer_idx]
        return (
            Split(prompt.keys, keys[:, :, :seen], self.bias, None),
            Split(prompt.values, values[:, :, :seen], self.bias, None),
        )

    def advance(self) -> None:
        """One token has been written in every layer."""
        self.length += 1

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def keep(self, groups: Tensor, rows: Tensor) -> None:
        """Go on with the prompts `groups` [n] and the rows `rows` [n * g], g of each kept prompt in turn."""
        self.prompts = [PromptStates(keys[groups], values[groups]) for keys, values in self.prompts]
        self.bias = self.bias[groups]
        self.rows = len(rows)
        for layer, (keys, values) in self.buffers.items():
            fresh = PromptStates(*(old.new_empty(self.rows, *old.shape[1:]) for old in (keys, values)))
            for new, old in zip(fresh, (keys, values), strict=True):
                new[:, :, : self.length] = old[rows, :, : self.length]
            self.buffers[layer] = fresh


def attend(
    module: nn.Module,
    query: Tensor,
    key: Split,
    value: Split,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Tensor, None]:
    """softmax([q Kp', q Kr'] * scaling + masks) [Vp; Vr] for query [B, H, T, D]; returns [B, T, H, D].

    H query heads share K key-value heads (grouped-query attention).
    """
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    fused = query.is_cuda and key.response_bias is not None
    out = (attend_joined if fused else attend_in_parts)(query, key, value, scaling)
    return out.transpose(1, 2).contiguous(), None


def attend_joined(query: Tensor, key: Split, value: Split, scaling: float) -> Tensor:
    """Every row gets its own copy of the prompt's keys and values, and the scores are never held; [B, H, T, D].

    With one prompt, which has no padding, the mask is causal and the flash kernel takes it; with several it is a
    tensor [B, 1, T, P + T], which the memory-efficient kernel takes.
    """
    rows, heads, length, _ = query.shape
    groups, kv_heads, prompt_length, _ = key.prompt.shape

    def joined(part: Split) -> Tensor:  # [B, H, P + T, D]
        prompt = part.prompt.repeat_interleave(rows // groups, 0)
        return torch.cat([prompt, part.response], dim=2).repeat_interleave(heads // kv_heads, 1)

    if groups == 1:
        mask = causal_lower_right(length, prompt_length + length)
    else:
        on_prompt = key.prompt_bias.repeat_interleave(rows // groups, 0).expand(-1, -1, length, -1)
        mask = torch.cat([on_prompt, key.response_bias.expand(rows, 1, -1, -1)], dim=-1).to(query.dtype)
    return scaled_dot_product_attention(query, joined(key), joined(value), attn_mask=mask, scale=scaling)


def attend_in_parts(query: Tensor, key: Split, value: Split, scaling: float) -> Tensor:
    """The prompt part is one product per group, its G responses and their T positions side by side as rows of one
    matrix; [B, H, T, D]."""
    rows, heads, length, size = query.shape
    groups, kv_heads, prompt_length, _ = key.prompt.shape
    per_group, per_head = rows // groups, heads // kv_heads

    def by_group(x: Tensor) -> Tensor:  # [B, K, R*T, X] -> [N, K, G*R*T, X]
        x = x.reshape(groups, per_group, kv_heads, per_head * length, x.shape[-1])
        return x.transpose(1, 2).reshape(groups, kv_heads, per_group * per_head * length, x.shape[-1])

    def by_row(x: Tensor) -> Tensor:  # and back
        x = x.reshape(groups, kv_heads, per_group, per_head * length, x.shape[-1])
        return x.transpose(1, 2).reshape(rows, kv_heads, per_head * length, x.shape[-1])

    query = (query * scaling).reshape(rows, kv_heads, per_head * length, size)
    on_prompt = by_row(by_group(query) @ key.prompt.transpose(-1, -2) + key.prompt_bias)
    on_response = query @ key.response.transpose(-1, -2)
    if key.response_bias is not None:
        on_response = on_response + key.response_bias.repeat(per_head, 1)
    scores = torch.cat([on_prompt, on_response], dim=-1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(query.dtype)
    out = by_row(by_group(weights[..., :prompt_length]) @ value.prompt)
    out = out + weights[..., prompt_length:] @ value.response
    return out.reshape(rows, heads, length, size)


def _no_mask(*_: object, **__: object) -> None:
    """The masks travel with the keys; Transformers need not build one."""


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _no_mask)


def supported(model: nn.Module) -> bool:
    """Whether the model's attention can be replaced: it uses the interface, and every layer sees all of the past."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return bool(getattr(model, "_supports_attention_backend", False)) and kinds == {"full_attention"}


def shared_prompt_attention(model: nn.Module) -> AbstractContextManager[None]:
    """Within the block the model's attention expects `Split` keys and values, from one of the caches above."""
    return attention(model, NAME)


@contextmanager
def attention(model: nn.Module, name: str) -> Iterator[None]:
    """Within the block the model's attention is the implementation `name` of Transformers' AttentionInterface."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
