"""Which ways of decoding are right for a model: tried when its engine opens, against the model's own forward pass."""

from __future__ import annotations

import math
from typing import Any

import torch

from stages.engines.decoding import Cached, Recomputed, Shared
from stages.engines.protocol import Request, Sampling
from stages.policy.checking import fault, furthest, leave_out, prompts_of
from stages.policy.limits import positions, window
from stages.policy.shared_attention import supported
from stages.records import DataError

TRIED = Sampling(temperature=1.0, min_tokens=4, max_tokens=4, stop=())


@torch.inference_mode()
def check_sampling(engine: Any) -> None:
    """Settle how a TransformersEngine decodes, `engine.plain` included; what is left out is said.

    Raises DataError naming the model where no way gives its own log-probs.
    """
    model, batches = engine.model, prompts_of(engine.model, TRIED.max_tokens)
    if not supported(model):
        leave_out(model, "its attention cannot be replaced")
    for prompts in batches:
        if engine.way(longest_of(prompts)) is Shared and (wrong := fault(lambda p=prompts: measure(engine, p, Shared))):
            leave_out(model, wrong)
    if supported(model) and window(model) >= (positions(model) or math.inf):
        return
    for engine.plain in (Cached, Recomputed):
        wrong = next(filter(None, (fault(lambda p=p: measure(engine, p, engine.plain)) for p in batches)), None)
        if wrong is None:
            return
    raise DataError(
        f"{type(model).__name__} cannot be sampled from by engine transformers: {wrong}; set compute.engine: vllm, or "
        "choose another policy"
    )


def longest_of(prompts: list[list[int]]) -> int:
    return max(map(len, prompts)) + TRIED.max_tokens


def measure(engine: Any, prompts: list[list[int]], way: Any) -> float:
    requests = [Request(prompt, [2 * i, 2 * i + 1]) for i, prompt in enumerate(prompts)]
    rows = list(engine.decode(requests, TRIED, way))
    return furthest(engine.model, prompts, [row.token_ids for row in rows], [row.log_probs for row in rows])
