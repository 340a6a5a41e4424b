"""Countdown, as TinyZero poses it (`nums`, `target`): reach the target from the numbers, each used once.

Problems come from a file or are generated; `countdown_answers` checks what is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from stages.tasks.arithmetic import Split, TooMany, split_of
from stages.tasks.countdown_answers import PROBLEM, is_problem
from stages.tasks.files import Reading, examples
from stages.tasks.rows import BadRow
from stages.tasks.verifiers import ground_truth_for

Problem = tuple[list[int], int]

LARGEST_NUMBER, LARGEST_TARGET = 99, 100
MAX_REPEATS = 10_000  # draws in a row without a new problem after which there are taken to be no more


def render(numbers: Sequence[int], target: int) -> str:
    """The question of a problem."""
    given = ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    return (
        f"Write an expression that equals {target}. Use each of the numbers {given} exactly once, the operations "
        "+, -, * and /, and parentheses where they are needed. The answer is the expression itself."
    )


def load(
    files: Sequence[Path],
    name: str,
    part: Split | None = None,
    size: int | None = None,
    reading: Reading | None = None,
) -> list[dict[str, Any]]:
    """EXAMPLES rows of files in TinyZero's form; of one part alone, and the first `size` of them, where given.

    Raises DataError naming file and line.
    """

    def convert(row: dict[str, Any], where: str) -> dict[str, Any] | None:
        numbers, target = row.get("nums"), row.get("target")
        if not is_problem(numbers, target):
            raise BadRow(where, "no Countdown problem in `nums` and `target`", f": {PROBLEM}")
        return _example(numbers, target) if part in (None, part_of(numbers, target)) else None

    return examples(files, name, convert, reading)[:size]


def generate(
    size: int, seed: int, n_numbers: int, part: Split | None = None, name: str = "countdown"
) -> list[dict[str, Any]]:
    """EXAMPLES rows of `size` different problems that can be solved; a larger size continues a smaller one.

    Raises TooMany where there are not so many.
    """
    problems = islice(_different(_draw(Random(f"countdown/{n_numbers}/{seed}"), n_numbers), part), size)
    rows = [{"example_id": f"{name}-{number:06d}", **_example(*problem)} for number, problem in enumerate(problems, 1)]
    if len(rows) < size:
        raise TooMany(f"there are about {len(rows)} different problems of {n_numbers} numbers; ask for fewer")
    return rows


def part_of(numbers: Sequence[int], target: int) -> Split:
    """One problem in sixteen is for validation, one for the test, whatever the order of its numbers."""
    return split_of(f"{sorted(numbers)} {target}")


def _example(numbers: Sequence[int], target: int) -> dict[str, Any]:
    return {
        "question": render(numbers, target),
        "ground_truth": ground_truth_for("countdown", {"numbers": list(numbers), "target": target}),
        "response": None,
    }


def _different(problems: Iterable[Problem], part: Split | None) -> Iterator[Problem]:
    seen: set[tuple[int, ...]] = set()
    repeats = 0
    for numbers, target in problems:
        key = (*sorted(numbers), target)
        repeats = repeats + 1 if key in seen else 0
        if repeats > MAX_REPEATS:
            return
        if repeats == 0:
            seen.add(key)
            if part in (None, part_of(numbers, target)):
                yield numbers, target


def _draw(rng: Random, n_numbers: int) -> Iterator[Problem]:
    """Problems without end: numbers at random, joined at random, kept where the result is a target."""
    while True:
        numbers = [1 + int(rng.random() * LARGEST_NUMBER) for _ in range(n_numbers)]
        values = [Fraction(number) for number in numbers]
        while len(values) > 1:
            left, right = (values.pop(int(rng.random() * len(values))) for _ in range(2))
            values.append(_join(left, "+-*/"[int(rng.random() * 4)], right))
        if values[0].denominator == 1 and 1 <= values[0] <= LARGEST_TARGET:
            yield numbers, int(values[0])


def _join(left: Fraction, operator: str, right: Fraction) -> Fraction:
    """`left operator right`; where that would divide by zero, their difference."""
    if operator == "/" and right:
        return left / right
    return {"+": left + right, "*": left * right}.get(operator, left - right)
