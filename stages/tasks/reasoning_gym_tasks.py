"""Reasoning Gym tasks (Stojanovski et al., arXiv 2505.24760): generated questions, each with its own verifier.

The questions say themselves in which form they want the answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Iterator
from typing import Any

from stages.records import DataError
from stages.strict import ConfigError
from stages.tasks.arithmetic import Split, TooMany, split_of
from stages.tasks.reasoning_gym_answers import fault
from stages.tasks.verifiers import ground_truth_for

Entry = dict[str, Any]


def load(dataset: str, split: Split, size: int, seed: int, name: str) -> list[Entry]:
    """EXAMPLES rows of `size` different questions of a dataset, at its default difficulty.

    A hash of the question decides its split, so splits never share one, whatever their sizes and seeds. The ground
    truth holds the dataset's name, its answer and its metadata, which is all that the verifier looks at. Raises
    ConfigError for a dataset that may not be used, TooMany where it has too few questions.
    """
    if (reason := fault(dataset)) is not None:
        raise ConfigError(f"data.{name}.dataset: {reason}")
    draws = 20 * size + 100
    found: dict[str, Entry] = {}
    for entry in _entries(dataset, draws, seed):
        if len(found) == size:
            break
        if split_of(entry["question"]) == split:
            found.setdefault(entry["question"], entry)
    if len(found) < size:
        raise TooMany(f"{dataset} gave {len(found)} different {split} questions in {draws} draws; ask for fewer")
    return [_example(dataset, entry, f"{name}-{number:06d}") for number, entry in enumerate(found.values(), 1)]


def _entries(dataset: str, draws: int, seed: int) -> Iterator[Entry]:
    """Entry i of a dataset is drawn from its seed + i, so neighbouring seeds would share all entries but one."""
    import reasoning_gym

    apart = int.from_bytes(hashlib.sha256(f"{dataset}/{seed}".encode()).digest()[:4], "big")
    with contextlib.redirect_stdout(io.StringIO()):
        made = reasoning_gym.create_dataset(dataset, seed=apart, size=draws)
    for index in range(draws):
        with contextlib.redirect_stdout(io.StringIO()):
            entry = made[index]
        yield entry


def _example(dataset: str, entry: Entry, example_id: str) -> Entry:
    if not isinstance(entry["answer"], str):
        raise DataError(f"{example_id}: {dataset} gave an answer that is no text ({entry['answer']!r:.40})")
    problem = {"dataset": dataset, "answer": entry["answer"], "metadata": entry["metadata"]}
    return {
        "example_id": example_id,
        "question": entry["question"],
        "ground_truth": ground_truth_for("reasoning_gym", problem),
        "response": None,
    }
