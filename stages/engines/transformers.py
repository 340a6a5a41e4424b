"""Sampling with a Transformers model: batched decoding that keeps each prompt once per group, where the model can.

Token choice is by inverse CDF from uniforms drawn per response from its own seed, so a response is the same in any
batch, up to the rounding of the model's forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from stages.engines.checking import check_sampling
from stages.engines.decoding import Cached, Decoding, Recomputed, Shared
from stages.engines.protocol import BROKEN, Completion, Request, Sampling, check_room, response_text, stop_end
from stages.policy.limits import positions, window
from stages.policy.padding import right_pad
from stages.policy.readout import head_of, readout
from stages.policy.sharding import full_weights
from stages.policy.shared_attention import supported

SHRINK_AT = 0.75  # drop finished rows once this share or less of the batch would remain


class TransformersEngine:
    """Samples `batch_size` responses at a time from a model that lives in this process."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int = 128) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.readout = readout(model)
        self.end_ids = end_token_ids(model.generation_config, tokenizer, self.readout.size)
        self._texts: dict[int, str] = {}
        self.plain: type[Cached | Recomputed] = Cached  # how to decode what cannot be decoded with shared prompts
        model.eval()
        check_sampling(self)

    def sync(self, model: PreTrainedModel) -> None:
        """Nothing to copy where the trainer's model is this engine's own."""
        if model is self.model:
            return
        own = self.model.state_dict()
        with torch.no_grad():
            for name, weight in full_weights(model, self.model.dtype):
                own[name].copy_(weight)

    @torch.inference_mode()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See Engine.generate. Prompts of like length go together, to keep padding low."""
        check_room(requests, sampling, positions(self.model))
        self.model.eval()
        answers: list[list[Completion]] = [[] for _ in requests]
        for batch in self._batches(requests):
            rows = self.decode([requests[i] for i in batch], sampling)
            for i in batch:
                answers[i] = [next(rows) for _ in requests[i].seeds]
        return answers

    def way(self, longest: int) -> type[Decoding]:
        """How to decode sequences of up to `longest` tokens: with shared prompts where all layers see all of them."""
        return Shared if supported(self.model) and longest <= window(self.model) else self.plain

    def _batches(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Indices of requests with equally many seeds, at most `batch_size` responses together."""
        asked = [i for i, request in enumerate(requests) if len(request.seeds)]
        order = sorted(asked, key=lambda i: (len(requests[i].seeds), len(requests[i].prompt_token_ids)))
        batch: list[int] = []
        for i in order:
            group = len(requests[i].seeds)
            if batch and (group != len(requests[batch[0]].seeds) or (len(batch) + 1) * group > self.batch_size):
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def decode(
        self, requests: list[Request], sampling: Sampling, way: type[Decoding] | None = None
    ) -> Iterator[Completion]:
        """The responses to requests of equally many seeds, by `way`, or as it is best."""
        group = len(requests[0].seeds)
        device = self.model.device
        prompts, lengths = right_pad([r.prompt_token_ids for r in requests], 0, device)
        head = head_of(self.model)
        way = way or self.way(prompts.shape[1] + sampling.max_tokens)
        decoding = way(self.model, prompts, lengths, group, sampling.max_tokens)
        live = _Live(requests, sampling, lengths.repeat_interleave(group), group)
        hidden = decoding.first
        while True:
            tokens = self._choose(self.readout(head(hidden)), live, sampling)
            self._finish(live, sampling)
            if live.done.all() or live.step == sampling.max_tokens:
                break
            tokens = live.shrink(decoding, tokens)
            hidden = decoding.step(tokens, live.positions)
            live.positions = live.positions + 1
        return iter([self._completion(row, sampling) for row in live.all_rows])

    def _choose(self, logits: Tensor, live: _Live, sampling: Sampling) -> Tensor:
        """Sample one token for every row of the batch; record it for the rows that are not done. Returns [B]."""
        logits = logits.float()
        log_probs = torch.log_softmax(logits / (sampling.temperature or 1.0), dim=-1)
        probs = log_probs.exp()
        entropy = -(probs * log_probs.clamp(min=torch.finfo(torch.float32).min)).sum(-1)
        if live.step < sampling.min_tokens:
            probs[:, self.end_ids] = 0.0
        if sampling.temperature == 0:
            tokens = probs.argmax(-1)
        else:
            cdf = probs.double().cumsum(-1)
            uniform = live.uniforms[:, live.step].to(cdf.device) * cdf[:, -1]
            tokens = torch.searchsorted(cdf, uniform[:, None], right=True)[:, 0].clamp(max=cdf.shape[1] - 1)
        chosen = log_probs.gather(-1, tokens[:, None])[:, 0]
        for row, token, log_prob, nats in zip(
            live.rows, tokens.tolist(), chosen.tolist(), entropy.tolist(), strict=True
        ):
            if not row.finish_reason:
                row.token_ids.append(token)
                row.log_probs.append(log_prob)
                row.entropy += nats
        live.step += 1
        return tokens

    def _finish(self, live: _Live, sampling: Sampling) -> None:
        """Mark the rows that end with the token just recorded."""
        for i, row in enumerate(live.rows):
            if row.finish_reason:
                continue
            if row.token_ids[-1] in self.end_ids:
                row.finish_reason = "eos"
            elif len(row.token_ids) > sampling.min_tokens and self._stopped(row.token_ids, sampling.stop):
                row.finish_reason = "stop"
            elif len(row.token_ids) == sampling.max_tokens:
                row.finish_reason = "length"
            live.done[i] = bool(row.finish_reason)

    def _stopped(self, token_ids: list[int], stops: tuple[str, ...]) -> bool:
        """Whether the last token completes a stop string. Only a token that holds a stop's last character can, or one
        that holds bytes of a character, which alone are none."""
        last = self._text_of(token_ids[-1])
        stops = tuple(stop for stop in stops if stop[-1] in last or BROKEN in last or stop[-1].isspace())
        if not stops:
            return False
        tail = max(len(stop.encode()) for stop in stops) + 4  # tokens of no text aside, each holds a byte or more
        return stop_end(self.tokenizer.decode, token_ids[-tail:], stops) is not None

    def _text_of(self, token_id: int) -> str:
        if token_id not in self._texts:
            self._texts[token_id] = self.tokenizer.decode([token_id])
        return self._texts[token_id]

    def _completion(self, row: _Row, sampling: Sampling) -> Completion:
        text = response_text(self.tokenizer.decode, row.token_ids, row.finish_reason, sampling.stop)
        entropy = row.entropy / len(row.token_ids)
        return Completion(row.token_ids, row.log_probs, text, row.finish_reason, entropy)


@dataclass
class _Row:
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    entropy: float = 0.0
    finish_reason: str = ""


class _Live:
    """The responses being decoded: G rows for each prompt still in the batch."""

    def __init__(self, requests: list[Request], sampling: Sampling, positions: Tensor, group: int) -> None:
        self.all_rows = [_Row() for _ in requests for _ in range(group)]
        self.rows = self.all_rows
        self.group = group
        self.positions = positions
        self.done = np.zeros(len(self.rows), dtype=bool)
        self.step = 0
        seeds = [seed for request in requests for seed in request.seeds]
        drawn = [np.random.Generator(np.random.Philox(seed)).random(sampling.max_tokens) for seed in seeds]
        self.uniforms = torch.from_numpy(np.stack(drawn))

    def shrink(self, decoding: Decoding, tokens: Tensor) -> Tensor:
        """Let finished rows leave the batch when enough of them have; returns the tokens of those that stay."""
        alive = ~self.done.reshape(-1, self.group)
        groups = np.flatnonzero(alive.any(1))
        width = int(alive.sum(1).max())
        if len(groups) * width > SHRINK_AT * len(self.rows):
            return tokens
        # the living first; a group with fewer than `width` is filled up with its own finished rows
        order = np.argsort(~alive[groups], axis=1, kind="stable")[:, :width]
        rows = (groups[:, None] * self.group + order).ravel()
        index = torch.from_numpy(rows).to(tokens.device)
        decoding.keep(torch.from_numpy(groups).to(tokens.device), index)
        self.rows = [self.rows[i] for i in rows]
        self.done = self.done[rows]
        self.group = width
        self.positions = self.positions[index]
        self.uniforms = self.uniforms[torch.from_numpy(rows)]
        return tokens[index]


def end_token_ids(generation: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase, size: int) -> list[int]:
    """All token ids that end a response: the tokenizer's, and those the model's generation config adds, of the `size`
    that the model can choose from."""
    found = getattr(generation, "eos_token_id", None)
    ids = set(found if isinstance(found, (list, tuple)) else [found]) | {tokenizer.eos_token_id}
    return sorted(i for i in ids if i is not None and 0 <= i < size)
