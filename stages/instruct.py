"""Instruction tuning (the assignment's supplement, section 4): token-mean NLL of packed documents, prompts included.

python -m stages.instruct --spec … --model … --train … --validation … --state … --metrics … …
"""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import typer

from stages import console
from stages.files import Files, command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Row = dict[str, Any]


@command(app)
def main(files: Files) -> None:
    """Fine-tune a policy on instructions and responses, packed; validation is the NLL of held-out ones."""
    tune(files)


def tune(files: Any, step: Any = None) -> None:
    """The whole stage; `step` takes the place of `instruct_step`."""
    from stages import training
    from stages.alignment import total_steps
    from stages.policy.packing import Epochs, cut
    from stages.strict import ConfigError

    with training.opened("instruct", files) as run:
        settings = run.settings
        epochs = Epochs(documents(run, run.train), settings.seq_length, settings.seed)
        held_out = cut(documents(run, run.validation), settings.seq_length)
        for file, chunks in ((files.train, len(epochs)), (files.validation, len(held_out))):
            refuse_too_little(file, chunks, settings.seq_length)
        if settings.seq_length > run.positions:
            raise ConfigError(
                f"seq_length {settings.seq_length} exceeds the policy's {run.positions} positions; lower it"
            )
        run.total = total_steps(len(epochs), settings)
        training.train(run, partial(step or instruct_step, epochs=epochs), partial(held_out_loss, chunks=held_out))


def documents(run: Any, rows: list[Row]) -> list[list[int]]:
    from stages.policy.packing import encode_document

    return [encode_document(run.tokenizer, row["prompt"], row["response"]) for row in rows]


def refuse_too_little(file: Path, chunks: int, seq_length: int) -> None:
    from stages.records import DataError

    if not chunks:
        raise DataError(f"{file}: not enough text for one chunk of seq_length {seq_length}; give more, or shorten it")


def instruct_step(run: Any, epochs: Any) -> list[Row]:
    """One optimiser step over `train_batch_size` chunks."""
    from stages.policy.packing import chunk_nll
    from stages.policy.processes import dealt, gather

    settings = run.settings
    began = time.monotonic()
    batch = epochs.batch(settings.train_batch_size, run.step, settings.n_epochs)
    num_tokens = sum(len(chunk) - 1 for chunk in batch)
    loss = 0.0
    for part, weight in dealt(micro_batches(batch, settings)):
        share = weight * chunk_nll(run.model, part) / num_tokens
        share.backward()
        loss += share.item()
    taken = run.descend(len(batch))
    return [
        {
            **taken,
            "num_tokens": num_tokens,
            "loss": sum(gather(loss)),
            "seconds_train": time.monotonic() - began,
        }
    ]


def held_out_loss(run: Any, chunks: list[list[int]]) -> tuple[Row, list[Row]]:
    """METRICS columns of the packed validation set, and answers to some of its instructions."""
    import torch

    from stages.alignment import answers
    from stages.policy.packing import chunk_nll
    from stages.policy.processes import dealt, gather

    num_tokens = sum(len(chunk) - 1 for chunk in chunks)
    nll = 0.0
    with torch.no_grad():
        for part, weight in dealt(micro_batches(chunks, run.settings)):
            nll += weight * chunk_nll(run.model, part).item()
    loss = sum(gather(nll)) / num_tokens
    row = {"num_examples": len(run.validation), "num_tokens": num_tokens, "loss": loss}
    row["perplexity"] = math.exp(loss) if loss < 709 else math.inf  # beyond, no float64 holds it: the run has diverged
    return row, answers(run, "response")


def micro_batches(chunks: list[list[int]], settings: Any) -> list[list[list[int]]]:
    """Parts of at most `micro_batch_tokens`, and small enough that every process has one."""
    from stages.policy.processes import count

    each = math.ceil(len(chunks) / count())
    size = max(1, min(each, settings.micro_batch_tokens // settings.seq_length))
    return [chunks[at : at + size] for at in range(0, len(chunks), size)]


if __name__ == "__main__":
    console.run(app)
