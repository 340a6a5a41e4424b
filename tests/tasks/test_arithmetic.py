"""The generated world: its questions are worked right, its splits disjoint, its faults exactly as many as asked for."""

import re
from collections import Counter
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.grading import grade_response
from stages.tasks.arithmetic import (
    KINDS,
    Problem,
    TooMany,
    add_add,
    available,
    boxes_and_more,
    buy_and_give,
    documents,
    draw,
    examples,
    problems,
    split_of,
    subtract_add,
    traces,
    work,
)
from stages.tasks.prompts import render

seeds = st.integers(0, 2**32)


def solve(question: str) -> int:
    """The answer read off the question's words, without looking at any steps."""
    numbers = [int(number) for number in re.findall(r"\d+", question)]
    a, b, c = numbers
    if " boxes of " in question:
        return a * b + c
    if "gives away" in question:
        return a + b - c
    return a - b + c if " - " in question else a + b + c


def step_results(text: str) -> list[tuple[int, str, int, int]]:
    steps = re.findall(r"(-?\d+) ([-+*]) (\d+) = (-?\d+)\.", text)
    return [(int(left), operator, int(right), int(result)) for left, operator, right, result in steps]


def is_right(step: tuple[int, str, int, int]) -> bool:
    left, operator, right, result = step
    return result == {"+": left + right, "-": left - right, "*": left * right}[operator]


def test_the_four_kinds_by_hand():
    assert add_add(3, 4, 5) == Problem("What is 3 + 4 + 5?", ((3, "+", 4), (7, "+", 5)), 12)
    assert subtract_add(3, 9, 2) == Problem("What is 9 - 3 + 2?", ((9, "-", 3), (6, "+", 2)), 8)
    assert boxes_and_more("Eve", "pens", 6, 7, 5) == Problem(
        "Eve buys 6 boxes of 7 pens and finds 5 more. How many pens in all?", ((6, "*", 7), (42, "+", 5)), 47
    )
    given_away = buy_and_give("Dan", "books", 1, 2, 9)
    assert given_away.question == "Dan has 1 books, buys 2 more and gives away 3. How many books are left?"
    assert given_away.answer == 0, "nobody gives away more than there is"


@given(seeds, st.sampled_from(["train", "validation", "test"]))
@settings(max_examples=50, deadline=None)
def test_every_answer_follows_from_the_words(seed, split):
    for problem in islice(draw(Random(seed), split), 20):
        assert problem.answer == solve(problem.question)
        assert split_of(problem.question) == split


def test_all_kinds_are_drawn_about_equally():
    drawn = [problem.question for problem in islice(draw(Random(0), "train"), 4000)]
    counts = {shape: sum(shape in question for question in drawn) for shape in ("boxes", "gives away", " - ")}
    counts["sum"] = len(drawn) - sum(counts.values())
    assert all(900 < count < 1100 for count in counts.values()), counts


@given(st.tuples(*3 * [st.integers(1, 300)]), st.tuples(*3 * [seeds]))
@settings(max_examples=20, deadline=None)
def test_no_two_splits_share_a_question(sizes, drawn_with):
    splits = ("train", "validation", "test")
    asked = [
        {problem.question for problem in problems(split, size, seed)}
        for split, size, seed in zip(splits, sizes, drawn_with, strict=True)
    ]
    assert tuple(map(len, asked)) == sizes
    assert len(set.union(*asked)) == sum(sizes)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_one_question_in_sixteen_is_for_validation_and_one_for_the_test(split):
    assert abs(available(split) / sum(map(available, ("train", "validation", "test"))) - 1 / 16) < 0.005


def test_a_larger_dataset_continues_a_smaller_one():
    assert problems("train", 50, seed=3) == problems("train", 200, seed=3)[:50]
    assert problems("train", 50, seed=3) != problems("train", 50, seed=4)


def test_more_questions_than_exist_are_refused():
    most = available("validation")
    with pytest.raises(TooMany, match=rf"{most + 1} exceeds the {most} questions of the validation split"):
        problems("validation", most + 1, seed=0)


def test_available_counts_what_can_be_drawn(monkeypatch):
    small = ((add_add, (range(1, 4), range(1, 4), range(1, 4))), (subtract_add, (range(1, 4), range(1, 4), [1])))
    monkeypatch.setattr("stages.tasks.arithmetic.KINDS", small)
    counted = available.__wrapped__("train")
    monkeypatch.setattr("stages.tasks.arithmetic.available", lambda split: counted)
    assert counted + sum(map(available.__wrapped__, ("validation", "test"))) == 27 + 6
    assert len(problems("train", counted, seed=0)) == counted


def test_examples_have_numbered_ids_and_no_response():
    rows = examples("validation", 3, seed=0, name="held_out")
    assert [row["example_id"] for row in rows] == ["held_out-000001", "held_out-000002", "held_out-000003"]
    assert all(row["response"] is None and row["ground_truth"] == str(solve(row["question"])) for row in rows)


# ---------------------------------------------------------------- worked steps


def test_a_slip_is_worked_on_honestly():
    problem = add_add(3, 4, 5)
    assert work(problem) == ("3 + 4 = 7. 7 + 5 = 12.", 12)
    assert work(problem, (2, 0)) == ("3 + 4 = 9. 9 + 5 = 14.", 14)
    assert work(problem, (0, -1)) == ("3 + 4 = 7. 7 + 5 = 11.", 11)


@given(st.integers(1, 200), st.floats(0, 1), seeds)
@settings(max_examples=40, deadline=None)
def test_traces_are_wrong_exactly_as_often_as_asked(size, wrong_fraction, seed):
    rows = traces(size, wrong_fraction, seed)
    wrong = 0
    for row in rows:
        answer = int(re.fullmatch(r" .* </think> <answer> (-?\d+) </answer>", row["response"])[1])
        steps = step_results(row["response"])
        faults = sum(not is_right(step) for step in steps)
        assert row["ground_truth"] == str(solve(row["question"]))
        assert steps[1][0] == steps[0][3], "the second step starts from what the first one reached"
        assert answer == steps[1][3]
        assert faults == (answer != solve(row["question"])), "one wrong step, and a wrong answer because of it"
        wrong += faults
    assert len({row["question"] for row in rows}) == size
    assert wrong == round(size * wrong_fraction)


def test_traces_are_of_the_train_split_and_graded_as_intended():
    rows = traces(100, 0.3, seed=1)
    verdicts = Counter(grade_response(row["response"], row["ground_truth"], "r1_zero").verdict for row in rows)
    assert verdicts == {"correct": 70, "wrong": 30}
    assert all(split_of(row["question"]) == "train" for row in rows)
    first_step = sum(not is_right(step_results(row["response"])[0]) for row in rows)
    assert 5 <= first_step <= 25, "either step goes wrong"


# ---------------------------------------------------------------- pretraining documents

HEAD, TAIL = render("r1_zero", question="\0").split("\0")


def form(document: str) -> str:
    if not document.startswith(HEAD):
        return "bare"
    for name, mark in (("right", "</think> <answer>"), ("newline", "</think>\n<answer>"), ("drift", "\nUser: ")):
        if mark in document.removeprefix(HEAD):
            return name
    return "boxed"


def test_forms_of_documents_come_in_the_stated_shares():
    counts = Counter(form(document) for document in islice(documents(0, 0.2, 0.8), 20_000))
    expected = {"bare": 0.80, "right": 0.07, "newline": 0.07, "boxed": 0.04, "drift": 0.02}
    assert {name: round(count / 20_000, 2) for name, count in counts.items()} == expected


def test_documents_never_ask_a_held_out_question():
    question = re.compile(r"(?:What is|(?:Ana|Ben|Cara|Dan|Eve|Finn|Gia|Hugo) (?:has|buys)) [^?\n]*\?(?: How[^?]*\?)?")
    held_out = {problem.question for split in ("validation", "test") for problem in problems(split, 5_000, seed=0)}
    asked = {found for document in islice(documents(1, 0.2, 0.5), 5_000) for found in question.findall(document)}
    assert len(asked) > 3_000
    assert not asked & held_out
    assert all(split_of(found) == "train" for found in asked)


@pytest.mark.parametrize("fraction", [0.0, 0.2, 1.0])
def test_steps_are_wrong_as_often_as_asked(fraction):
    steps = [step for document in islice(documents(2, fraction, 1.0), 5_000) for step in step_results(document)]
    assert len(steps) == 10_000
    assert abs(sum(not is_right(step) for step in steps) / len(steps) - fraction) < 0.015
    assert all(step[3] >= 0 for step in steps if not is_right(step))


def test_document_forms_by_example():
    found = {}
    for document in documents(0, 0.0, 0.5):
        found.setdefault(form(document), document.removeprefix(HEAD))
        if len(found) == 5:
            break
    for name, document in found.items():
        question = document.split(TAIL)[0] if name != "bare" else document.split("?")[0]
        answer = step_results(document)[1][3]
        endings = {
            "bare": rf"\. The answer is \\boxed\{{{answer}\}}\.",
            "right": rf"\. </think> <answer> {answer} </answer>",
            "newline": rf"\. </think>\n<answer> {answer} </answer>",
            "boxed": rf"\. The answer is \\boxed\{{{answer}\}}\.",
            "drift": r"\. \nUser: [^\n]*\?",
        }
        assert re.search(endings[name] + r"\Z", document), (name, document)
        assert not re.search(r"\d+ [-+*] \d+ =", question)


def test_values_that_must_not_change_between_versions_of_python():
    assert [problem.question for problem in problems("train", 3, seed=0)] == [
        "Ben buys 2 boxes of 8 books and finds 6 more. How many books in all?",
        "What is 5 - 4 + 3?",
        "Gia buys 5 boxes of 8 pens and finds 8 more. How many pens in all?",
    ]
    assert next(documents(7, 0.2, 0.8)) == r"What is 9 - 1 + 6? 9 - 1 = 8. 8 + 6 = 14. The answer is \boxed{14}."
    assert traces(3, 0.34, seed=3)[2]["response"] == " 7 * 8 = 54. 54 + 1 = 55. </think> <answer> 55 </answer>"
    assert (available("train"), available("validation"), available("test")) == (161_283, 11_531, 11_713)
    assert len(KINDS) == 4
