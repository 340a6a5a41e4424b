"""Generated problems as instructions to follow, and as pairs of a right and a wrong worked answer to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from stages.tasks.arithmetic import Problem, Split, boxed, one_slip, problems, work

Row = dict[str, Any]


def instructions(split: Split, size: int, wrong_fraction: float, seed: int, name: str) -> list[Row]:
    """INSTRUCTIONS rows of a split. Exactly round(size * wrong_fraction) responses take a wrong step and work on."""
    rng = Random(f"instructions/{split}/{seed}")
    wrong = set(sorted(range(size), key=lambda _: rng.random())[: round(size * wrong_fraction)])
    rows = []
    for index, (example_id, problem) in enumerate(_named(split, size, seed, name)):
        response = answer(problem, one_slip(rng, problem) if index in wrong else (0, 0))
        rows.append({"example_id": example_id, "prompt": problem.question, "response": response})
    return rows


def preferences(split: Split, size: int, seed: int, name: str) -> list[Row]:
    """PREFERENCES rows of a split: the right answer is preferred to one with a wrong step in it."""
    rng = Random(f"preferences/{split}/{seed}")
    return [
        {
            "example_id": example_id,
            "prompt": problem.question,
            "chosen": answer(problem, (0, 0)),
            "rejected": answer(problem, one_slip(rng, problem)),
            "category": "arithmetic",
        }
        for example_id, problem in _named(split, size, seed, name)
    ]


def _named(split: Split, size: int, seed: int, name: str) -> Iterator[tuple[str, Problem]]:
    for number, problem in enumerate(problems(split, size, seed), 1):
        yield f"{name}-{number:06d}", problem


def answer(problem: Problem, slips: tuple[int, int]) -> str:
    """The written steps, each off by its slip, and the answer they reach in a box."""
    steps, reached = work(problem, slips)
    return f"{steps} {boxed(reached)}"
