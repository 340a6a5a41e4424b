"""Three ways to run a model token by token; each gives the states that go into the head, [B, H], for B = N * G rows.

`Shared` keeps every prompt once for its G responses and any decoder of plain attention can be run so; `Cached` has the
model's own attention with its own cache, a prompt for each row, padded on the left; `Recomputed` has no cache: it runs
all of every row again for each token, padded on the right, as training does. Each is slower than the one before, and
asks less of the model. Which of them are right for a model is found when it is opened (checking).
"""

from __future__ import annotations

import inspect
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from stages.policy.readout import states
from stages.policy.shared_attention import shared_prompt_attention
from stages.policy.shared_prompt import DecodingCache, common_prefix, run_prompts


class Decoding(Protocol):
    """A batch being decoded, from prompts [N, P], right-padded, of `lengths` [N], `group` rows each; `first` are the
    states after the prompts. Raises NotImplementedError where the model is not made for it."""

    first: Tensor

    def step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The states after one more token [B], at its position [B], in every row."""

    def keep(self, groups: Tensor, rows: Tensor) -> None:
        """Go on with the prompts `groups` [n] and the rows `rows` [n * g], g of each kept prompt in turn."""


class Shared:
    def __init__(self, model: PreTrainedModel, prompts: Tensor, lengths: Tensor, group: int, max_tokens: int) -> None:
        last, parts = run_prompts(model, prompts, lengths, common_prefix(prompts, lengths))
        self.model, self.cache = model, DecodingCache(parts, max_tokens)
        self.first = last.repeat_interleave(group, 0)

    def step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        with shared_prompt_attention(self.model):
            hidden, _ = states(
                self.model,
                input_ids=tokens[:, None],
                position_ids=positions[:, None],
                past_key_values=self.cache,
                use_cache=True,
            )
        self.cache.advance()
        return hidden[:, -1]

    def keep(self, groups: Tensor, rows: Tensor) -> None:
        self.cache.keep(groups, rows)


class Cached:
    def __init__(self, model: PreTrainedModel, prompts: Tensor, lengths: Tensor, group: int, max_tokens: int) -> None:
        self.model = model
        self.takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        shift = prompts.shape[1] - lengths[:, None]
        place = torch.arange(prompts.shape[1], device=prompts.device)[None] - shift  # of each token in its prompt
        self.mask = (place >= 0).long().repeat_interleave(group, 0)
        positions = place.clamp(min=0)
        ids = prompts.gather(1, positions)
        self.cache: Cache | None = None
        self.first = self._run(ids.repeat_interleave(group, 0), positions.repeat_interleave(group, 0))
        if not isinstance(self.cache, Cache):
            raise NotImplementedError(f"{type(model).__name__} keeps no cache of Transformers' kind")

    def step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(self.mask), 1)], dim=1)
        return self._run(tokens[:, None], positions[:, None])

    def _run(self, ids: Tensor, positions: Tensor) -> Tensor:
        inputs = {"position_ids": positions} if self.takes_positions else {}
        if self.cache is not None:
            inputs["past_key_values"] = self.cache
        hidden, self.cache = states(self.model, input_ids=ids, attention_mask=self.mask, use_cache=True, **inputs)
        return hidden[:, -1]

    def keep(self, groups: Tensor, rows: Tensor) -> None:
        self.mask = self.mask[rows]
        self.cache.reorder_cache(rows)


class Recomputed:
    def __init__(self, model: PreTrainedModel, prompts: Tensor, lengths: Tensor, group: int, max_tokens: int) -> None:
        self.model = model
        room = prompts.new_zeros(len(prompts), max_tokens)
        self.ids = torch.cat([prompts, room], dim=1).repeat_interleave(group, 0)
        self.first = self._run(lengths.repeat_interleave(group, 0) - 1)

    def step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        self.ids.scatter_(1, positions[:, None], tokens[:, None])
        return self._run(positions)

    def _run(self, last: Tensor) -> Tensor:
        hidden, _ = states(self.model, input_ids=self.ids[:, : int(last.max()) + 1], use_cache=False)
        return hidden[torch.arange(len(hidden), device=hidden.device), last]

    def keep(self, groups: Tensor, rows: Tensor) -> None:
        self.ids = self.ids[rows]
