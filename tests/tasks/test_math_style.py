"""MATH-style rows: the reference from `answer` or from the box, levels, worked responses."""

import json
from pathlib import Path

import pytest

from stages.grading import grade_response
from stages.records import EXAMPLES, DataError, table
from stages.tasks.math_style import load

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = {"problem": "1+1?", "answer": "2"}


def write(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return [path]


def test_the_test_fixture_has_answers_and_ids():
    rows = load([FIXTURES / "math.jsonl"], "math")
    assert rows[1] == {
        "example_id": "own/counting/2.json",
        "question": "A fair die is rolled twice. What is the probability that both rolls are even?",
        "ground_truth": r"\frac{1}{4}",
        "response": None,
    }
    assert [row["ground_truth"] for row in rows] == ["100", r"\frac{1}{4}", "5", "(1, 3)", r"\frac{3}{11}"]
    table(rows, EXAMPLES)


def test_the_train_fixture_has_its_answers_in_boxes():
    rows = load([FIXTURES / "math_train.jsonl"], "math")
    assert [row["ground_truth"] for row in rows] == ["5", "32", "2", r"\{-3, 3\}", r"\frac{1}{2}"]
    assert [row["example_id"] for row in rows] == [f"math-{number:06d}" for number in range(1, 6)]


@pytest.mark.parametrize("name", ["math.jsonl", "math_train.jsonl"])
def test_solutions_as_responses_are_graded_right(name):
    for row in load([FIXTURES / name], "math", responses=True):
        assert row["response"].endswith(f" </think> <answer> {row['ground_truth']} </answer>")
        assert grade_response(row["response"], row["ground_truth"], "r1_zero").verdict == "correct"


def test_other_ways_of_writing_an_answer_are_right_too():
    rows = load([FIXTURES / "math.jsonl"], "math")
    for row, answer in zip(rows, ["10^2", "0.25", "5.0", "1 < x < 3", r"\dfrac{27}{99}"], strict=True):
        response = f"</think> <answer> {answer} </answer>"
        assert grade_response(response, row["ground_truth"], "r1_zero").verdict == "correct"


def test_levels_are_read_in_both_spellings():
    assert [row["ground_truth"] for row in load([FIXTURES / "math.jsonl"], "m", levels=[3, 5])] == [
        "5",
        r"\frac{3}{11}",
    ]
    assert [row["ground_truth"] for row in load([FIXTURES / "math_train.jsonl"], "m", levels=[2])] == ["32", "2"]


def test_several_files_are_one_dataset(tmp_path):
    files = write(tmp_path / "a.jsonl", GOOD) + write(tmp_path / "b.jsonl", GOOD | {"answer": 3})
    assert [(row["example_id"], row["ground_truth"]) for row in load(files, "m")] == [
        ("m-000001", "2"),
        ("m-000002", "3"),
    ]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"answer": "2"}, {}, "field 'problem' is missing"),
        ({"problem": "a"}, {}, "neither an answer nor a solution"),
        ({"problem": "a", "solution": "It is 2."}, {}, "no field `answer`, and no complete .boxed"),
        ({"problem": "a", "solution": r"It is \boxed{2"}, {}, "no field `answer`, and no complete .boxed"),
        ({"problem": "a", "answer": " "}, {}, "field 'answer' is empty"),
        ({"problem": "a", "answer": "2"}, {"responses": True}, "field 'solution' is missing"),
        ({"problem": "a", "answer": "2"}, {"levels": [1]}, "field 'level' is missing"),
        ({"problem": "a", "answer": "2", "level": "hard"}, {"levels": [1]}, "the level is neither a number nor"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, row, options, message):
    files = write(tmp_path / "m.jsonl", GOOD | {"solution": r"\boxed{2}", "level": 1}, row)
    with pytest.raises(DataError, match=message) as caught:
        load(files, "m", **options)
    assert str(caught.value).startswith(f"{tmp_path}/m.jsonl:2: ")


def test_a_level_that_no_row_has(tmp_path):
    files = write(tmp_path / "m.jsonl", GOOD | {"level": 1})
    with pytest.raises(DataError, match=r"m\.jsonl: none of its 1 rows can be used"):
        load(files, "m", levels=[5])


def test_two_rows_of_one_id_are_refused(tmp_path):
    files = write(tmp_path / "a.jsonl", GOOD | {"unique_id": "x"}) + write(
        tmp_path / "b.jsonl", GOOD | {"unique_id": "x"}
    )
    with pytest.raises(
        DataError,
        match=r"b\.jsonl:1: its id is .*: 'x' is that of .*a\.jsonl:1 as well; make 'unique_id'",
    ):
        load(files, "m")
