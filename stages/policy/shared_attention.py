"""Attention to parts that rows of a batch share: a template, each group's prompt, each row's own response.

Queries attend to the tokens of all parts under one softmax, as if they stood in one sequence. On a GPU a training pass
hands the parts, joined per row, to PyTorch's fused attention, which never holds the scores [B, H, T, S]; elsewhere, and
while decoding, a part is one matrix product per run of rows that share it.

Shapes: B rows of T positions, H query heads that share K key-value heads (grouped-query attention), D head size, S
tokens of a part, or of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

NAME = "shared_prompt"
# What models hand to every attention, and which changes nothing in this one.
WITHOUT_EFFECT = {
    "position_ids",
    "cache_position",
    "use_cache",
    "is_causal",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
}


class Part(NamedTuple):
    """What n equal runs of a batch's rows attend to, one each: a template (n = 1), prompts (n = N), responses (n = B).

    Heads come first, so that with queries [K, B, ...] each run of rows is one matrix, and nothing is copied for it.
    """

    keys: Tensor  # [K, n, S, D]
    values: Tensor  # [K, n, S, D]
    bias: Tensor | None  # added to scores [K, n, B / n, H / K, T, S]: -inf at what is not seen; None: all is seen

    @property
    def runs(self) -> int:
        return self.keys.shape[1]

    @property
    def length(self) -> int:
        return self.keys.shape[2]


Parts = list[Part]  # of one layer, in the order of their tokens; the responses' own come last


class Packing:
    """The N tokens of B rows that `mask` [B, T] names, side by side as one row: layers compute no padding. Attention
    alone sees rows."""

    def __init__(self, mask: Tensor) -> None:
        self.rows, self.width = mask.shape
        self.places = mask.flatten().nonzero()[:, 0]

    def unpack(self, x: Tensor) -> Tensor:
        """[1, H, N, D] as [B, H, T, D], 0 at padding."""
        _, heads, count, size = x.shape
        flat = x.new_zeros(self.rows * self.width, heads * size)
        flat = flat.index_copy(0, self.places, x[0].transpose(0, 1).reshape(count, heads * size))
        return flat.view(self.rows, self.width, heads, size).transpose(1, 2)

    def pack(self, x: Tensor) -> Tensor:
        """[B, T, H, D] as [1, N, H, D]."""
        return x.flatten(0, 1).index_select(0, self.places)[None]


class Seen(NamedTuple):
    """What a layer's queries attend to; they come packed where there is a packing."""

    parts: Parts
    packing: Packing | None = None


def attend(
    module: nn.Module,
    query: Tensor,
    key: Seen,
    value: Seen,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: object,
) -> tuple[Tensor, None]:
    """softmax([q K1', q K2', ...] * scaling + biases) [V1; V2; ...] for query [B, H, T, D]; returns [B, T, H, D].

    The caches of shared_prompt give keys and values at once, as `key` and once more as `value`. A packed query
    [1, H, N, D] returns packed, [1, N, H, D].

    Raises NotImplementedError where the model asks for what this cannot do: a window shorter than the sequence, bent
    scores, attention sinks, a mask or anything else it has of its own.
    """
    parts, packing = key
    window = others.pop("sliding_window", None)
    if window is not None and sum(part.length for part in parts) > window:
        raise NotImplementedError(f"{type(module).__name__} asks shared attention for a window of {window} tokens")
    asked = {"attention_mask": attention_mask, "dropout": dropout or None} | others
    if unknown := sorted(name for name, value in asked.items() if value is not None and name not in WITHOUT_EFFECT):
        raise NotImplementedError(f"{type(module).__name__} asks shared attention for {', '.join(unknown)}")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if packing is None:
        return attend_in_parts(query, parts, scaling), None
    path = attend_joined if query.is_cuda else attend_in_parts
    return packing.pack(path(packing.unpack(query), parts, scaling)), None


def attend_joined(query: Tensor, parts: Parts, scaling: float) -> Tensor:
    """Every row gets its own copy of all keys and values, and the scores are never held; [B, T, H, D].

    Without padding the mask is causal and the flash kernel takes it; else it is a tensor [B, 1, T, S], S over all
    parts, which the memory-efficient kernel takes.
    """
    rows, heads, length, _ = query.shape

    def joined(states: list[Tensor]) -> Tensor:  # [B, H, S, D]
        each = [part.transpose(0, 1).repeat_interleave(rows // part.shape[1], 0) for part in states]
        return torch.cat(each, dim=2).repeat_interleave(heads // len(states[0]), 1)

    if all(part.bias is None for part in parts[:-1]):
        mask = causal_lower_right(length, sum(part.length for part in parts))
    else:
        mask = torch.cat([_joined_bias(part, query) for part in parts], dim=-1)
    keys, values = joined([part.keys for part in parts]), joined([part.values for part in parts])
    out = scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scaling)
    return out.transpose(1, 2).contiguous()


def _joined_bias(part: Part, query: Tensor) -> Tensor:
    """[B, 1, T, S]"""
    rows, _, length, _ = query.shape
    bias = query.new_zeros(()) if part.bias is None else part.bias.to(query.dtype)
    return bias.expand(part.runs, rows // part.runs, 1, length, part.length).reshape(rows, 1, length, part.length)


def attend_in_parts(query: Tensor, parts: Parts, scaling: float) -> Tensor:
    """Each part is one product per head and run, the run's rows, their heads and their T positions side by side as rows
    of one matrix; [B, T, H, D]."""
    rows, heads, length, size = query.shape
    kv_heads = len(parts[0].keys)
    per_head = heads // kv_heads

    def by_run(x: Tensor, part: Part) -> Tensor:  # [K, B, R*T, X] -> [K*n, B/n*R*T, X]
        return x.reshape(kv_heads * part.runs, -1, x.shape[-1])

    query = (query * scaling).reshape(rows, kv_heads, per_head * length, size).transpose(0, 1).contiguous()
    scores = []
    for part in parts:
        on_part = torch.bmm(by_run(query, part), part.keys.flatten(0, 1).transpose(1, 2))
        if part.bias is not None:
            on_part.view(kv_heads, part.runs, rows // part.runs, per_head, length, -1).add_(part.bias)
        scores.append(on_part.view(kv_heads, rows, per_head * length, -1))
    joined = torch.cat(scores, dim=-1)
    weights = joined.softmax(-1, dtype=torch.promote_types(joined.dtype, torch.float32)).to(query.dtype)
    outs = [
        torch.bmm(by_run(seen, part), part.values.flatten(0, 1)).view(kv_heads, rows, per_head * length, -1)
        for part, seen in zip(parts, weights.split([part.length for part in parts], dim=-1), strict=True)
    ]
    out = sum(outs[1:], outs[0]).view(kv_heads, rows, per_head, length, -1)
    return out.permute(1, 3, 0, 2, 4).reshape(rows, length, heads, -1)


def _no_mask(*_: object, **__: object) -> None:
    """The masks travel with the keys; Transformers need not build one."""


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _no_mask)


UNFIT: WeakSet[nn.Module] = WeakSet()  # models whose shared path was seen to differ from their own forward pass


def supported(model: nn.Module) -> bool:
    """Whether the model's attention can be replaced, as far as its config tells: it uses the interface, and layers see
    all of the past, or all of it within a window (`window`). What a config does not tell, a check finds (checking)."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    replaceable = bool(getattr(model, "_supports_attention_backend", False))
    return replaceable and kinds <= {"full_attention", "sliding_attention"} and model not in UNFIT


def shared_prompt_attention(model: nn.Module) -> AbstractContextManager[None]:
    """Within the block the model's attention expects keys and values from one of the caches of shared_prompt."""
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
