"""From examples to ROLLOUTS rows: render, tokenise once, sample. Nothing here knows of grading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stages.config import Sampled
from stages.engines.protocol import Engine, Request, sample_seed, sampling_of
from stages.tasks.prompts import render

Row = dict[str, Any]
Example = dict[str, Any]
VALIDATION = -1  # takes the place of the step in seeds, so that every validation draws the same random numbers


def sample_rows(
    engine: Engine,
    tokenize: Callable[[str], list[int]],
    examples: Sequence[Example],
    settings: Sampled,
    *,
    step: int,
    group_size: int,
    seed_step: int,
    model: str,
    run: str,
    rollout_batch: int | None = None,
) -> list[Row]:
    """`group_size` rows for each example in turn, ungraded. The prompt is tokenised here and nowhere else.

    `step` and `rollout_batch` are recorded; `seed_step` enters the seeds (a rollout batch from 0, or VALIDATION). An
    example that comes again is sampled on: its second group is numbered from `group_size`, or it would repeat the first
    token for token.
    """
    prompts = [render(settings.prompt, question=example["question"]) for example in examples]
    indices = _indices([example["example_id"] for example in examples], group_size)
    seeds = [
        [sample_seed(settings.seed, seed_step, example["example_id"], index) for index in group]
        for example, group in zip(examples, indices, strict=True)
    ]
    requests = [
        Request(tokenize(prompt), group, f"the prompt of example {example['example_id']}")
        for example, prompt, group in zip(examples, prompts, seeds, strict=True)
    ]
    answers = engine.generate(requests, sampling_of(settings))
    return [
        {
            "example_id": example["example_id"],
            "step": step,
            "rollout_batch": rollout_batch,
            "sample_index": index,
            "prompt": prompt,
            "response": completion.text,
            "prompt_token_ids": list(request.prompt_token_ids),
            "response_token_ids": completion.token_ids,
            "sampler_log_probs": completion.log_probs,
            "finish_reason": completion.finish_reason,
            "ground_truth": example["ground_truth"],
            "mean_token_entropy": completion.mean_entropy,
            "num_response_tokens": len(completion.token_ids),
            "seed": settings.seed,
            "model": model,
            "run": run,
        }
        for example, prompt, request, group, numbers in zip(examples, prompts, requests, answers, indices, strict=True)
        for index, completion in zip(numbers, group, strict=True)
    ]


def _indices(example_ids: Sequence[str], group_size: int) -> list[range]:
    """The sample indices of each example's group: from 0, and from where the last group of the same example ended."""
    met: Counter[str] = Counter()
    found = []
    for example_id in example_ids:
        found.append(range(met[example_id], met[example_id] + group_size))
        met[example_id] += group_size
    return found


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
