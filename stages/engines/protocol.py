"""What every sampler can do, whatever runs beneath it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stages.config import Decoding
from stages.strict import ConfigError

BROKEN = "\ufffd"  # what bytes decode to that are a part of a character


@dataclass(frozen=True)
class Sampling:
    """How to sample. `temperature` 0 is greedy. The stop string is kept in the text; the end token is kept in the ids.

    None of the first `min_tokens` tokens ends a response: neither as the end token nor as the end of a stop string.
    Their log-probs do not know of it (Completion), so a policy that would often end there, trained without a baseline,
    is pushed away from its end token by what was never a choice.
    """

    temperature: float = 1.0
    min_tokens: int = 4
    max_tokens: int = 1024
    stop: tuple[str, ...] = ("</answer>",)


@dataclass(frozen=True)
class Request:
    """One prompt as token ids, one seed for each response wanted, and what a fault calls it."""

    prompt_token_ids: Sequence[int]
    seeds: Sequence[int]
    name: str = "a prompt"


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
        Raises ConfigError where there is no room for a response (check_room).
        """

    def sync(self, model: Any) -> None:
        """Sample from the weights of `model`, a trainer's, from now on."""


def sampling_of(settings: Decoding) -> Sampling:
    return Sampling(
        temperature=settings.sampling_temperature,
        min_tokens=settings.sampling_min_tokens,
        max_tokens=settings.sampling_max_tokens,
        stop=settings.stop,
    )


def check_room(requests: Sequence[Request], sampling: Sampling, positions: int | None) -> None:
    """Raise ConfigError where a prompt is empty, or it and `max_tokens` more exceed the model's `positions`."""
    for request in requests:
        length = len(request.prompt_token_ids)
        if not length:
            raise ConfigError(f"{request.name} has no token: there is nothing to sample from")
        if positions is not None and length + sampling.max_tokens > positions:
            raise ConfigError(
                f"{request.name} has {length} tokens; with sampling_max_tokens {sampling.max_tokens} they exceed the "
                f"policy's {positions} positions: lower sampling_max_tokens, or leave out examples as long as this one"
            )


def response_text(
    decode: Callable[[Sequence[int]], str], token_ids: Sequence[int], finish_reason: str, stop: Sequence[str]
) -> str:
    """The text of a finished response: without the end token, and up to the end of the stop string, whose last token
    may hold more than that."""
    text = decode(token_ids[:-1] if finish_reason == "eos" else token_ids)
    if finish_reason == "stop":
        end = stop_end(decode, token_ids, stop)
        text = text[: min(text.rindex(each) + len(each) for each in stop if each in text) if end is None else end]
    return text


def stop_end(decode: Callable[[Sequence[int]], str], token_ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """Where in the text of `token_ids` the stop string ends that their last token completes, the first of several; None
    where it completes none. One that was complete before does not count."""
    before, text = decode(token_ids[:-1]).rstrip(BROKEN), decode(token_ids)
    found = [(text.find(stop, max(0, len(before) - len(stop) + 1)), len(stop)) for stop in stops]
    return min((at + length for at, length in found if at >= 0), default=None)


def sample_seed(run_seed: int, step: int, example_id: str, sample_index: int) -> int:
    """The seed of one response, below 2**63: a hash, so no two responses of a run share one by arithmetic."""
    text = f"{run_seed}/{step}/{sample_index}/{example_id}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
