"""Examples to train on and to sample from: read, cut to size, dealt out in batches."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import records

Row = dict[str, Any]


def read_examples(
    path: Path, schema: pa.Schema = records.EXAMPLES, needs_response: bool = False, may_be_empty: bool = False
) -> list[Row]:
    """A dataset's rows; an empty one, or one without responses where they are needed, is an error."""
    rows = records.read_table(path, schema).to_pylist()
    if not rows and not may_be_empty:
        raise records.DataError(f"{path}: no examples; check the dataset's entry in the config")
    if needs_response and any(row["response"] is None for row in rows):
        raise records.DataError(f"{path}: has no responses to fine-tune on; name a dataset with responses as `train`")
    return rows


def first(rows: list[Row], count: int | str, exactly: bool = False) -> list[Row]:
    """The first `count` rows, or all where it is "full". With `exactly`, fewer are an error: a run is compared with
    others by the number of examples that it is said to have seen."""
    if exactly and count != "full" and count > len(rows):
        raise records.DataError(
            f"num_examples: {count} of a training set of {len(rows)}; write full, or a number of them"
        )
    return rows if count == "full" else rows[:count]


def named(row: Mapping[str, Any]) -> str:
    """What tells a row from others of its file, whatever file it stands in: question, sample, and which stood first."""
    return f"{row['example_id']}/{row.get('sample_index') or 0}/{row.get('order') or 0}"


def drawn(rows: Sequence[Any], count: int, name: Callable[[Any], str] = named) -> list[Any]:
    """`count` of the rows to be read as examples of all, or all of them: those whose names hash lowest.

    The first ones of a file are all of one subject where it lies by subject. Drawn by name, they are the same on every
    machine, and of several files with the same questions the same questions.
    """
    return sorted(rows, key=lambda row: hashlib.sha256(f"drawn/{name(row)}".encode()).digest())[:count]


def leak(train: Sequence[Row], validation: Sequence[Row]) -> str:
    """What to say where validation asks what training has seen, the same question or prompt; "" where it does not."""
    seen = {row.get("question", row.get("prompt")) for row in train}
    known = sum(row.get("question", row.get("prompt")) in seen for row in validation)
    if not known:
        return ""
    return f"{known} of {len(validation)} validation examples are trained on as well: that part of a score is memory"


def batch_of(rows: Sequence[Row], size: int, step: int, seed: int, order: str = "shuffled") -> list[Row]:
    """The `step`-th batch of an endless stream of epochs, each a fresh permutation that depends on (seed, epoch).

    With order "file" every epoch goes through the rows as they lie: a curriculum, if they lie by difficulty.
    """
    found: list[Row] = []
    for position in range(step * size, (step + 1) * size):
        epoch, index = divmod(position, len(rows))
        if not found or index == 0:
            indices = list(range(len(rows)))
            if order == "shuffled":
                random.Random(f"{seed}/{epoch}").shuffle(indices)
        found.append(rows[indices[index]])
    return found
