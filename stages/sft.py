"""Supervised fine-tuning on worked responses (Algorithm 1 of the assignment): token-mean NLL of the response.

python -m stages.sft --spec … --model … --train … --validation … --state … --metrics … …
"""

from __future__ import annotations

import math
import time
from typing import Any

import typer

from stages import console
from stages.files import Files, command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Row = dict[str, Any]


@command(app)
def main(files: Files) -> None:
    """Fine-tune a policy on the `response` column of a dataset, validating as it goes."""
    from stages import training

    with training.opened("sft", files, total_steps) as run:
        refuse_too_long(run)
        training.train(run, sft_step)


def refuse_too_long(run: Any) -> None:
    """Raise DataError naming an example of more tokens than the policy has positions: those beyond mean nothing."""
    from stages.records import DataError

    for row in run.train:
        tokens = sum(map(len, tokenized(run, row)))
        if tokens > run.positions:
            raise DataError(
                f"{run.files.train}: {row['example_id']} has {tokens} tokens of prompt and response, the policy "
                f"{run.positions} positions; shorten it or leave it out"
            )


def total_steps(settings: Any, examples: list[Row]) -> int:
    """`n_sft_steps`, or, where `n_epochs` is given, as many as see every example that often; none without examples."""
    if settings.n_epochs is None:
        return settings.n_sft_steps
    return math.ceil(len(examples) * settings.n_epochs / settings.train_batch_size)


def sft_step(run: Any) -> list[Row]:
    """One optimiser step over `train_batch_size` examples."""
    from stages.algorithm.sft import sft_loss
    from stages.examples import batch_of
    from stages.policy.processes import dealt, gather
    from stages.policy.scoring import make_sequences, score, template_pays

    settings = run.settings
    began = time.monotonic()
    batch = [tokenized(run, row) for row in batch_of(run.train, settings.train_batch_size, run.step, settings.seed)]
    num_tokens = sum(len(response) for _, response in batch)
    loss = entropy = 0.0
    for part, weight in dealt(micro_batches(batch, settings.micro_batch_tokens)):
        sequences = make_sequences([p for p, _ in part], [r for _, r in part], run.model.device)
        shared = settings.share_prompts and template_pays(run.model, sequences)
        log_probs, entropies = score(run.model, sequences, temperature=1.0, shared=shared, with_entropy=True)
        partial = weight * sft_loss(log_probs, sequences.response_mask, num_tokens)
        partial.backward()
        loss += partial.item()
        entropy += weight * entropies.sum().item() / num_tokens
    taken = run.descend(len(batch))
    return [
        {
            **taken,
            "num_tokens": num_tokens,
            "loss": sum(gather(loss)),
            "target_entropy": sum(gather(entropy)),
            "target_length": num_tokens / len(batch),
            "seconds_train": time.monotonic() - began,
        }
    ]


def tokenized(run: Any, row: Row) -> tuple[list[int], list[int]]:
    """Prompt and response ids, tokenised apart so that the boundary is known.

    A response that does not end in a stop string, which ends sampling by itself, is closed by the end token.
    """
    from stages.tasks.prompts import render

    prompt = run.tokenize(render(run.settings.prompt, question=row["question"]))
    response = run.tokenizer(row["response"], add_special_tokens=False).input_ids
    if not row["response"].endswith(run.settings.stop):
        response = [*response, run.tokenizer.eos_token_id]
    return prompt, response


def micro_batches(batch: list[tuple[list[int], list[int]]], budget: int) -> list[list[tuple[list[int], list[int]]]]:
    """Split a batch, sorted by length, so that no part holds more than `budget` tokens with its padding."""
    parts: list[list[tuple[list[int], list[int]]]] = [[]]
    for pair in sorted(batch, key=lambda pair: len(pair[0]) + len(pair[1])):
        if parts[-1] and (len(parts[-1]) + 1) * (len(pair[0]) + len(pair[1])) > budget:
            parts.append([])
        parts[-1].append(pair)
    return parts


if __name__ == "__main__":
    console.run(app)
