"""A generated world of word problems with worked steps: small enough to learn on a laptop, hard enough to get wrong.

Four kinds of problem, two steps each. The split of a problem is a function of its question alone, so a train, a
validation and a test set never share a question, whatever their sizes and seeds. Every function is pure; the only
random method used is `random.Random.random`, whose sequence Python guarantees across versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from random import Random
from typing import Any, Literal, TypeVar

from stages.tasks.prompts import render

Item = TypeVar("Item")
Split = Literal["train", "validation", "test"]
Step = tuple[int, str, int]

NAMES = ("Ana", "Ben", "Cara", "Dan", "Eve", "Finn", "Gia", "Hugo")
THINGS = ("clips", "apples", "coins", "books", "cards", "pens")
ADDENDS, FACTORS, LAST = range(1, 20), range(2, 10), range(1, 10)
SLIPS = (-10, -2, -1, 1, 2, 10)


class TooMany(ValueError):
    """More different questions were asked for than exist."""


@dataclass(frozen=True)
class Problem:
    """A question, its right steps (left, operator, right) in order, and the result of the last one."""

    question: str
    steps: tuple[Step, Step]
    answer: int


# ---------------------------------------------------------------- the four kinds


def add_add(a: int, b: int, c: int) -> Problem:
    return _problem(f"What is {a} + {b} + {c}?", (a, "+", b), "+", c)


def subtract_add(a: int, b: int, c: int) -> Problem:
    a, b = max(a, b), min(a, b)
    return _problem(f"What is {a} - {b} + {c}?", (a, "-", b), "+", c)


def buy_and_give(name: str, things: str, a: int, b: int, c: int) -> Problem:
    c = min(c, a + b)
    question = f"{name} has {a} {things}, buys {b} more and gives away {c}. How many {things} are left?"
    return _problem(question, (a, "+", b), "-", c)


def boxes_and_more(name: str, things: str, x: int, y: int, c: int) -> Problem:
    question = f"{name} buys {x} boxes of {y} {things} and finds {c} more. How many {things} in all?"
    return _problem(question, (x, "*", y), "+", c)


KINDS = (
    (add_add, (ADDENDS, ADDENDS, LAST)),
    (buy_and_give, (NAMES, THINGS, ADDENDS, ADDENDS, LAST)),
    (boxes_and_more, (NAMES, THINGS, FACTORS, FACTORS, LAST)),
    (subtract_add, (ADDENDS, ADDENDS, LAST)),
)


def _problem(question: str, first: Step, operator: str, right: int) -> Problem:
    second = (evaluate(first), operator, right)
    return Problem(question, (first, second), evaluate(second))


def evaluate(step: Step) -> int:
    left, operator, right = step
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def split_of(question: str) -> Split:
    """One question in sixteen is for validation, one for the test; neither is in anything that is trained on."""
    held_out: dict[int, Split] = {0: "validation", 8: "test"}
    return held_out.get(hashlib.sha256(question.encode()).digest()[0] % 16, "train")


@cache
def available(split: Split) -> int:
    """How many different questions of a split exist."""
    every = {kind(*values).question for kind, ranges in KINDS for values in product(*ranges)}
    return sum(split_of(question) == split for question in every)


# ---------------------------------------------------------------- drawing


def _pick(rng: Random, items: Sequence[Item]) -> Item:
    return items[int(rng.random() * len(items))]


def draw(rng: Random, split: Split) -> Iterator[Problem]:
    """Problems of a split without end, all kinds equally often, repeats included."""
    while True:
        kind, ranges = _pick(rng, KINDS)
        problem = kind(*[_pick(rng, values) for values in ranges])
        if split_of(problem.question) == split:
            yield problem


def problems(split: Split, size: int, seed: int) -> list[Problem]:
    """`size` problems of a split with different questions; a larger size continues a smaller one of the same seed.

    Raises TooMany where the split has fewer questions than that.
    """
    if size > available(split):
        raise TooMany(f"{size} exceeds the {available(split)} questions of the {split} split; ask for fewer")
    found: dict[str, Problem] = {}
    source = draw(Random(f"problems/{split}/{seed}"), split)
    while len(found) < size:
        problem = next(source)
        found.setdefault(problem.question, problem)
    return list(found.values())


# ---------------------------------------------------------------- worked steps


def work(problem: Problem, slips: tuple[int, int] = (0, 0)) -> tuple[str, int]:
    """The written steps and the answer they reach. Each step is off by its slip; the next works on from there."""
    written, result = [], problem.steps[0][0]
    for (_, operator, right), slip in zip(problem.steps, slips, strict=True):
        left, result = result, evaluate((result, operator, right)) + slip
        written.append(f"{left} {operator} {right} = {result}.")
    return " ".join(written), result


def _slip(rng: Random, result: int) -> int:
    """How far a wrong step lands from `result`; no slip makes a result negative."""
    return _pick(rng, [slip for slip in SLIPS if result + slip >= 0])


def _slips(rng: Random, problem: Problem, wrong: tuple[bool, bool]) -> tuple[int, int]:
    """Slips for the steps marked wrong, the second chosen for the result that the first one leads to."""
    first = _slip(rng, evaluate(problem.steps[0])) if wrong[0] else 0
    second = _slip(rng, problem.answer + first) if wrong[1] else 0
    return first, second


def one_slip(rng: Random, problem: Problem) -> tuple[int, int]:
    """Slips for one wrong step, the first or the second, which make the answer wrong."""
    return _slips(rng, problem, _pick(rng, [(True, False), (False, True)]))


def boxed(answer: int) -> str:
    return rf"The answer is \boxed{{{answer}}}."


ENDINGS: dict[str, Callable[[int], str]] = {
    "right": lambda answer: f"</think> <answer> {answer} </answer>",
    "newline": lambda answer: f"</think>\n<answer> {answer} </answer>",
    "boxed": boxed,
}
FORMS = ("right",) * 7 + ("newline",) * 7 + ("boxed",) * 4 + ("drift",) * 2  # under the r1_zero prompt


def documents(seed: int, wrong_step_fraction: float, bare_question_fraction: float) -> Iterator[str]:
    """Pretraining documents without end, on train-split questions only.

    `bare_question_fraction` of them give question, steps and a boxed answer. The rest stand under the r1_zero prompt:
    of 20, 7 answer in the right form, 7 with a newline between the tags, 4 in a box without tags, and 2 drift into a
    new user turn without answering. Each step is wrong with probability `wrong_step_fraction`.
    """
    rng = Random(f"documents/{seed}")
    source = draw(rng, "train")
    while True:
        problem = next(source)
        wrong = (rng.random() < wrong_step_fraction, rng.random() < wrong_step_fraction)
        steps, answer = work(problem, _slips(rng, problem, wrong))
        form = "bare" if rng.random() < bare_question_fraction else _pick(rng, FORMS)
        if form == "bare":
            yield f"{problem.question} {steps} {boxed(answer)}"
        elif form == "drift":
            yield f"{render('r1_zero', question=problem.question)} {steps} \nUser: {next(source).question}"
        else:
            yield f"{render('r1_zero', question=problem.question)} {steps} {ENDINGS[form](answer)}"


# ---------------------------------------------------------------- datasets


def examples(split: Split, size: int, seed: int, name: str = "arithmetic") -> list[dict[str, Any]]:
    """Rows of the EXAMPLES schema, without responses."""
    return [_example(name, number, problem, None) for number, problem in enumerate(problems(split, size, seed), 1)]


def traces(size: int, wrong_fraction: float, seed: int, name: str = "traces") -> list[dict[str, Any]]:
    """EXAMPLES rows of the train split with a worked response in r1_zero form.

    Exactly round(size * wrong_fraction) responses take one wrong step, work on from it, and end in a wrong answer;
    `ground_truth` is right in all of them.
    """
    rng = Random(f"traces/{seed}")
    order = sorted(range(size), key=lambda _: rng.random())
    wrong = set(islice(order, round(size * wrong_fraction)))
    rows = []
    for index, problem in enumerate(problems("train", size, seed)):
        slips = one_slip(rng, problem) if index in wrong else (0, 0)
        steps, answer = work(problem, slips)
        rows.append(_example(name, index + 1, problem, f" {steps} </think> <answer> {answer} </answer>"))
    return rows


def _example(name: str, number: int, problem: Problem, response: str | None) -> dict[str, Any]:
    return {
        "example_id": f"{name}-{number:06d}",
        "question": problem.question,
        "ground_truth": str(problem.answer),
        "response": response,
    }
