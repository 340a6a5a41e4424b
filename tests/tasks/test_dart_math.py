"""DART-Math: several solutions of one question, each a row with its own label."""

import json
from pathlib import Path

import pytest

from stages.grading import grade_response
from stages.records import DataError
from stages.tasks.dart_math import load

FIXTURE = Path(__file__).parent / "fixtures" / "dart_math.jsonl"


def test_the_fixture_by_hand():
    rows, found = load([FIXTURE], "dart")
    assert found == {"stated": 2, "boxed": 2, "none": 1}
    assert [row["ground_truth"] for row in rows] == ["210", "210", "15", r"5\sqrt{2}"]
    assert [row["example_id"] for row in rows] == [f"dart-{number:06d}" for number in (1, 2, 3, 4)]
    assert rows[0] == {
        "example_id": "dart-000001",
        "question": "Mia reads 15 pages a day. How many pages does she read in two weeks?",
        "ground_truth": "210",
        "response": " Two weeks have 14 days.\n15 * 14 = 210.\nThe answer is: 210 </think> <answer> 210 </answer>",
    }


def test_every_response_is_graded_right():
    for row in load([FIXTURE], "dart")[0]:
        assert grade_response(row["response"], row["ground_truth"], "r1_zero").verdict == "correct"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "a"}, "field 'response' is missing"),
        ({"question": "a", "response": "b"}, "field 'query' is missing"),
        ({"query": "a", "response": ["b"]}, "field 'response' must be a string"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, row, message):
    path = tmp_path / "d.jsonl"
    path.write_text(FIXTURE.read_text() + json.dumps(row))
    with pytest.raises(DataError, match=message) as caught:
        load([path], "dart")
    assert str(caught.value).startswith(f"{path}:6: ")
