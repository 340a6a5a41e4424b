"""A group's prompt is held, and computed, once.

The G responses of one prompt see the same prompt keys and values. Repeating them G times (what a batch of whole
sequences does) costs G times the prompt's forward pass in training, and G copies of its cache in sampling. Here the
prompt runs once per group, and a template that all prompts begin with once per batch, through any decoder whose
attention goes by Transformers' AttentionInterface; the responses then attend to those and to their own tokens
(shared_attention). The result is the same function of the weights, gradients included: only the order of
floating-point sums differs. No cache here is changed by running a layer twice, so layers can be recomputed in the
backward pass (gradient checkpointing).

Shapes: N prompts of up to P tokens (right-padded), B = N * G responses, K key-value heads, D head size. Rows of one
group are adjacent.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from stages.policy.readout import states
from stages.policy.sharding import all_agree
from stages.policy.shared_attention import Packing, Part, Parts, Seen


def run_prompts(model: PreTrainedModel, ids: Tensor, lengths: Tensor, template: int) -> tuple[Tensor, list[Parts]]:
    """The state [N, H] after each of the prompts `ids` [N, P] of the given `lengths` [N], and every layer's parts.

    Their first `template` tokens, the same in all (common_prefix), run once for the batch. Graphs are kept if there
    are any.
    """
    before, hidden = PromptCache([]), None
    if not all_agree(model, template > 0):
        template = 0
    if template:
        hidden, _ = states(model, input_ids=ids[:1, :template], past_key_values=before, use_cache=True)
    own = PromptCache(before.states)
    rest, _ = states(model, input_ids=ids[:, template:], past_key_values=own, use_cache=True)
    if hidden is not None:  # part of the result, though never looked at: FSDP fetches weights for what leads there
        rest = torch.cat([hidden.expand(len(ids), -1, -1), rest], dim=1)
    bias = padding_bias(lengths - template, ids.shape[1] - template, rest.dtype)
    parts = [[_part(layer, bias)] for layer in own.states]
    if template:
        parts = [[_part(layer), *later] for layer, later in zip(before.states, parts, strict=True)]
    return rest[torch.arange(len(ids), device=ids.device), lengths - 1], parts


def _part(layer: tuple[Tensor, Tensor], bias: Tensor | None = None) -> Part:
    keys, values = (each.transpose(0, 1).contiguous() for each in layer)
    return Part(keys, values, bias)


def padding_bias(lengths: Tensor, width: int, dtype: torch.dtype) -> Tensor | None:
    """A part's bias [N, 1, 1, 1, P] over right-padded prompts of the given `lengths` [N]; None without padding."""
    padding = torch.arange(width, device=lengths.device)[None] >= lengths[:, None]
    if not padding.any():
        return None
    bias = torch.zeros(padding.shape, dtype=dtype, device=lengths.device).masked_fill_(padding, float("-inf"))
    return bias[:, None, None, None, :]


def common_prefix(ids: Tensor, lengths: Tensor) -> int:
    """How many first tokens are the same in all prompts [N, P]; each keeps a last one of its own. 0 for one prompt."""
    if len(ids) == 1:
        return 0
    most = int(lengths.min()) - 1
    return int((ids[:, :most] == ids[:1, :most]).all(0).long().cumprod(0).sum())


class PromptCache(Cache):
    """For one forward pass over prompts: keeps every layer's keys and values, [N, K, P, D] each, which come after those
    of the template `before` them."""

    def __init__(self, before: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__(layers=[])
        self.before = before
        self.states: list[tuple[Tensor, Tensor]] = []

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object) -> tuple[Tensor, Tensor]:
        if layer_idx == len(self.states):  # a layer that is recomputed was kept the first time
            self.states.append((key_states, value_states))
        if not self.before:
            return key_states, value_states
        keys, values = (each.expand(len(key_states), -1, -1, -1) for each in self.before[layer_idx])
        return torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.before[0][0].shape[2] if self.before else 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return self.get_seq_length()


class TrainingCache(Cache):
    """For one forward pass over whole responses, packed: every layer answers with the prompts' parts and this pass's
    own."""

    def __init__(self, prompts: list[Parts], packing: Packing) -> None:
        super().__init__(layers=[])
        self.prompts = prompts
        self.packing = packing
        length = packing.width
        like = prompts[0][0].keys
        self.causal = torch.full((length, length), float("-inf"), dtype=like.dtype, device=like.device).triu_(1)

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object) -> tuple[Seen, Seen]:
        keys, values = (self.packing.unpack(states).transpose(0, 1) for states in (key_states, value_states))
        seen = Seen([*self.prompts[layer_idx], Part(keys, values, self.causal)], self.packing)
        return seen, seen

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0


class DecodingCache(Cache):
    """For sampling token by token: response states go into buffers of fixed size, so nothing is copied per step.

    `keep` drops rows that have finished. Rows stay grouped: each prompt keeps the same number of rows, and a group
    that has fewer repeats one of its own (its output is ignored).
    """

    def __init__(self, prompts: list[Parts], capacity: int) -> None:
        super().__init__(layers=[])
        self.prompts = prompts
        self.capacity = capacity
        self.length = 0
        self.buffers: dict[int, tuple[Tensor, Tensor]] = {}  # keys and values of a layer, [K, B, capacity, D] each

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object) -> tuple[Seen, Seen]:
        states = key_states.transpose(0, 1), value_states.transpose(0, 1)
        if layer_idx not in self.buffers:
            self.buffers[layer_idx] = tuple(
                each.new_empty(*each.shape[:2], self.capacity, each.shape[3]) for each in states
            )
        end = self.length + 1
        for buffer, each in zip(self.buffers[layer_idx], states, strict=True):
            buffer[:, :, self.length : end] = each
        own = Part(*(buffer[:, :, :end] for buffer in self.buffers[layer_idx]), None)
        seen = Seen([*self.prompts[layer_idx], own])
        return seen, seen

    def advance(self) -> None:
        """One token has been written in every layer."""
        self.length += 1

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def keep(self, groups: Tensor, rows: Tensor) -> None:
        """Go on with the prompts `groups` [n] and the rows `rows` [n * g], g of each kept prompt in turn."""
        self.prompts = [[_kept(part, groups) for part in parts] for parts in self.prompts]
        for layer, buffers in self.buffers.items():
            fresh = tuple(old.new_empty(len(old), len(rows), *old.shape[2:]) for old in buffers)
            for new, old in zip(fresh, buffers, strict=True):
                new[:, :, : self.length] = old[:, rows, : self.length]
            self.buffers[layer] = fresh


def _kept(part: Part, groups: Tensor) -> Part:
    if part.runs == 1:  # a template, or the one prompt there is
        return part
    return Part(part.keys[:, groups], part.values[:, groups], None if part.bias is None else part.bias[groups])
