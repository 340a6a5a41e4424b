"""Tulu 3 SFT Math: chats as question and solution, labels counted, rows without one left out."""

import json
from pathlib import Path

import pytest

from stages import prepare
from stages.grading import grade_response
from stages.records import EXAMPLES, DataError, provenance_of, read_table
from stages.tasks.tulu3 import load

FIXTURE = Path(__file__).parent / "fixtures" / "tulu3.jsonl"


def chat(*turns):
    return {"id": "a", "messages": [{"role": role, "content": content} for role, content in turns]}


def test_the_fixture_by_hand():
    rows, found = load([FIXTURE], "tulu")
    assert found == {"boxed": 1, "stated": 2, "math_verify": 1, "none": 1}
    assert [row["example_id"] for row in rows] == [f"own_math_{number}" for number in (1, 2, 3, 4)]
    assert [row["ground_truth"] for row in rows] == ["54", r"\frac{3}{2}", "12", "32 litres"]
    assert rows[2] == {
        "example_id": "own_math_3",
        "question": "You are a careful tutor.\n\nDifferentiate x^3 at x = 2.",
        "ground_truth": "12",
        "response": " The derivative is $3x^2$.\nAt $x = 2$ it is therefore $12$. </think> <answer> 12 </answer>",
    }


def test_every_response_is_graded_right():
    for row in load([FIXTURE], "tulu")[0]:
        assert grade_response(row["response"], row["ground_truth"], "r1_zero").verdict == "correct"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a", "prompt": "x"}, "field 'messages' must be a list of objects"),
        ({"id": "a", "messages": "x"}, "field 'messages' must be a list of objects"),
        ({"id": "a", "messages": ["x"]}, "field 'messages' must be a list of objects"),
        (
            {"id": "a", "messages": [{"role": "user"}]},
            "a chat by user",
        ),
        ({"id": "a", "messages": []}, "a chat by nobody"),
        ({"id": "a", "messages": [{"content": "x"}]}, "field 'role' is missing"),
        (
            chat(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")),
            "a chat of several turns",
        ),
        (chat(("assistant", "a"), ("user", "b")), "a chat by assistant, user"),
        (chat(("user", ""), ("assistant", "b")), "field 'content' is empty"),
        (chat(("user", "a"), ("assistant", None)), "field 'content' must be a string .got null."),
    ],
)
def test_a_row_that_is_no_question_and_solution_is_named(tmp_path, row, message):
    path = tmp_path / "t.jsonl"
    path.write_text(FIXTURE.read_text() + json.dumps(row))
    with pytest.raises(DataError, match=message) as caught:
        load([path], "tulu")
    assert str(caught.value).startswith(f"{path}:6: ")


def test_nothing_with_a_label(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(chat(("user", "Why?"), ("assistant", "Because it is so."))))
    with pytest.raises(DataError, match=r"t\.jsonl: none of its 1 rows can be used"):
        load([path], "tulu")


def test_the_share_without_a_label_is_reported(tmp_path, capsys):
    spec, out = tmp_path / "spec.json", tmp_path / "tulu.parquet"
    values = {"source": "tulu3", "path": str(FIXTURE)}
    spec.write_text(json.dumps({"stage": "prepare", "name": "tulu", "code": "c0de", "values": values}))
    prepare.prepare(spec=spec, out=out)
    assert provenance_of(out)["labels"] == {"boxed": 1, "stated": 2, "math_verify": 1, "none": 1}
    assert read_table(out, EXAMPLES).num_rows == 4
    told = " ".join(capsys.readouterr().err.split())
    assert "tulu: 1 of 5 solutions (20.00%) have no short label and are left out" in told
