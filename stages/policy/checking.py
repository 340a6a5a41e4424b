"""A policy is checked when it is opened: what scoring and sampling make of it against its own forward pass.

Both run a model otherwise than it runs itself: they skip the dense logits, and replace its attention where prompts are
shared. Here a short prompt and a longer one, beyond the model's window where that is small, go through
`model(ids).logits`, one sequence at a time, and through every way there is. A way that gives other numbers is not used;
where none is left, the policy is refused. Nothing random is drawn from a generator of anybody else's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stages import console
from stages.policy.limits import positions, window
from stages.policy.scoring import Sequences, fits, make_sequences, score
from stages.policy.shared_attention import UNFIT, supported
from stages.records import DataError

SHORT, LONG, SMALL_WINDOW = 3, 24, 256  # tokens of prompts; the largest window to look beyond
LENGTHS = (4, 2, 3, 4)  # of responses, two to a prompt
# Nats. In float32: of every token, and a share of what it is. Rounding to bfloat16 moves single tokens by more than
# some faults do, so there it is the mean over tokens that counts.
TOLERANCE, SHARE, ROUNDED = 1e-3, 1e-4, 0.25


def prompts_of(model: PreTrainedModel, room: int) -> list[list[list[int]]]:
    """A batch of two short prompts and one of two longer ones, which leave `room` for a response. Lengths differ, and
    both begin with the same token."""
    size, most = model.get_input_embeddings().num_embeddings, (positions(model) or math.inf) - room
    beyond = window(model) + 2 if window(model) <= SMALL_WINDOW else 0
    drawn = torch.randint(size, (2, SMALL_WINDOW + LONG), generator=torch.Generator().manual_seed(0)).tolist()
    longest = int(min(max(LONG, beyond), most))
    return [[drawn[0][:long], [drawn[0][0], *drawn[1]][: long - 1]] for long in (SHORT, longest) if long >= 2]


def own_log_probs(model: PreTrainedModel, prompt: Sequence[int], response: Sequence[int]) -> Tensor:
    """Of each token of the response, by the model's own forward pass over this one sequence; float32. Raises DataError
    where they are not finite."""
    ids = torch.tensor([[*prompt, *response]], device=model.device)
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
    own = torch.log_softmax(logits, -1).gather(-1, ids[0, len(prompt) :, None])[:, 0]
    if not own.isfinite().all():
        raise DataError("its own log-probs are not finite, as where weights have diverged")
    return own


def gap(found: Tensor, own: Tensor, dtype: torch.dtype) -> float:
    """How many times further `found` [n] is from the model's `own` log-probs than rounding explains."""
    away = (found - own).abs()
    if not away.isfinite().all():
        return math.inf
    exact = (away / (TOLERANCE + SHARE * own.abs())).max()
    return (exact if dtype == torch.float32 else away.mean() / ROUNDED).item()


def fault(measure: Callable[[], float]) -> str | None:
    """What is wrong with a way that `measure` measures by `gap`, if something is; whatever a model raises included."""
    try:
        far = measure()
    except Exception as error:  # models are of many authors, and what does not run is not used, whatever the reason
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None if far <= 1 else f"its log-probs would be {far:.2g} times further from its own than rounding explains"


@torch.no_grad()
def check_scoring(model: PreTrainedModel) -> None:
    """Leave out the shared path for a model it is not for, with a word; raise DataError where the plain one is wrong.

    For a model whose weights are whole.
    """
    size = model.get_input_embeddings().num_embeddings
    drawn = torch.randint(size, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1)).tolist()
    responses = [row[:length] for row, length in zip(drawn, LENGTHS, strict=True)]
    for prompts in prompts_of(model, max(LENGTHS)):
        batch = make_sequences(prompts, responses, model.device)

        def measure(shared: bool, batch: Sequences = batch, prompts: list[list[int]] = prompts) -> float:
            found, _ = score(model, batch, temperature=1.0, shared=shared)
            return furthest(model, prompts, responses, found)

        if wrong := fault(lambda: measure(False)):
            raise DataError(f"{type(model).__name__} cannot be trained: {wrong}; choose another policy")
        if fits(model, batch) and (wrong := fault(lambda: measure(True))):
            leave_out(model, wrong)
    if not supported(model):
        leave_out(model, "its attention cannot be replaced")


def furthest(model: PreTrainedModel, prompts: list[list[int]], responses: list[list[int]], found: Any) -> float:
    """`gap` of rows of log-probs, two for each of two prompts: of the first one and of the last."""
    picked = [(prompts[0], responses[0], found[0]), (prompts[1], responses[3], found[3])]
    own = torch.cat([own_log_probs(model, prompt, response) for prompt, response, _ in picked])
    rows = [torch.as_tensor(row[: len(response)], device=own.device) for _, response, row in picked]
    return gap(torch.cat(rows), own, model.dtype)


def leave_out(model: PreTrainedModel, wrong: str) -> None:
    """From now on the model's prompts are not shared; said once."""
    if model not in UNFIT:
        UNFIT.add(model)
        console.say(f"{type(model).__name__}: prompts are not shared among responses, which is slower: {wrong}")
