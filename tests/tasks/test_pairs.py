"""A user's own preferences: what is taken of a row, what is left out and counted, what is refused."""

import json

import pytest

from stages.records import DATASETS, DataError, table
from stages.tasks import pairs


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


ASKED, YES, NO = said("user", "Is it?"), said("assistant", "Yes."), said("assistant", "No.")
PAIR = {"prompt": "Is it?", "chosen": "Yes.", "rejected": "No.", "category": None}


def loaded(tmp_path, *rows, fields=("prompt", "chosen", "rejected")):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return pairs.load([path], "mine", *fields)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Is it?", "chosen": "Yes.", "rejected": "No."},
        {"chosen": [ASKED, YES], "rejected": [ASKED, NO]},
        {"prompt": "Is it?", "chosen": [ASKED, YES], "rejected": [ASKED, NO], "score": 3},
        {"prompt": [ASKED], "chosen": [YES], "rejected": [NO]},
    ],
    ids=["text", "chats", "chats beside their prompt", "chats after their prompt"],
)
def test_a_pair_in_any_of_the_usual_forms(tmp_path, row):
    rows, found = loaded(tmp_path, row)
    assert rows == [{"example_id": "mine-000001", **PAIR}]
    assert found == {"kept": 1}
    assert table(rows, DATASETS["preferences"]).num_rows == 1


def test_a_system_s_message_stays_in_the_prompt(tmp_path):
    rows, _ = loaded(tmp_path, {"prompt": [said("system", "Be short."), ASKED], "chosen": [YES], "rejected": [NO]})
    assert rows[0]["prompt"] == "Be short.\n\nIs it?"


def test_fields_of_any_name(tmp_path):
    rows, _ = loaded(tmp_path, {"id": 3, "q": "Is it?", "good": "Yes.", "bad": "No."}, fields=("q", "good", "bad"))
    assert rows == [{"example_id": "3", **PAIR}]


def test_pairs_that_no_preference_can_be_learned_from_are_left_out_and_counted(tmp_path):
    rows, found = loaded(
        tmp_path,
        {"prompt": "Is it?", "chosen": "Yes.", "rejected": "No."},
        {"prompt": "Is it?", "chosen": "Yes.", "rejected": "Yes."},
        {"chosen": [ASKED, YES], "rejected": [said("user", "Is it not?"), NO]},
        {"chosen": [ASKED, YES, ASKED, NO], "rejected": [ASKED, NO]},
    )
    assert len(rows) == 1
    assert pairs.told(found) == (
        "1 of 4 pairs kept; left out: 1 have several turns, 1 answer two different prompts, "
        "1 hold the same answer twice"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "x", "chosen": "y"}, r"a\.jsonl:1: field 'rejected' is missing; known: chosen, prompt"),
        ({"prompt": "x", "chosen": "", "rejected": "y"}, "field 'chosen' is empty"),
        ({"prompt": "x", "chosen": [ASKED, YES], "rejected": "y"}, "field 'rejected' must be a list of objects"),
        ({"prompt": [ASKED], "chosen": "x", "rejected": "y"}, "field 'prompt' must be a string"),
        ({"prompt": "x", "chosen": [YES], "rejected": [NO]}, "a chat by assistant; "),
    ],
)
def test_a_row_that_is_no_pair_is_named(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        loaded(tmp_path, row)
