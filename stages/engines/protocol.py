"""What every sampler can do, whatever runs beneath it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Sampling:
    """How to sample. `temperature` 0 is greedy. The stop string is kept in the text; the end token is kept in the ids.

    Neither the end token nor a stop string ends a response before `min_tokens` tokens.
    """

    temperature: float = 1.0
    min_tokens: int = 4
    max_tokens: int = 1024
    stop: tuple[str, ...] = ("</answer>",)


@dataclass(frozen=True)
class Request:
    """One prompt as token ids, and one seed for each response wanted."""

    prompt_token_ids: Sequence[int]
    seeds: Sequence[int]


@dataclass(frozen=True)
class Completion:
    """One response.

    `log_probs` (nats) are of the sampled tokens under softmax(logits / temperature), before any token was forbidden
    by `min_tokens`: what the trainer computes for the same tokens. At temperature 0 they are untempered.
    `mean_entropy` (nats) is None where the engine cannot see whole distributions.
    """

    token_ids: list[int]
    log_probs: list[float]
    text: str
    finish_reason: str  # stop (a stop string), eos (the end token) or length (max_tokens)
    mean_entropy: float | None = None


class Engine(Protocol):
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order.

        A response depends on weights, prompt, sampling and its own seed, not on what else is in the batch.
        """

    def sync(self, model: Any) -> None:
        """Sample from the weights of `model`, a trainer's, from now on."""


def sample_seed(run_seed: int, step: int, example_id: str, sample_index: int) -> int:
    """The seed of one response, below 2**63: a hash, so no two responses of a run share one by arithmetic."""
    text = f"{run_seed}/{step}/{sample_index}/{example_id}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
