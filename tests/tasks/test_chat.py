"""Instruction data: what is taken of a row and of a chat, and what is refused."""

import json

import pytest

from stages.records import DataError
from stages.tasks import chat
from stages.tasks.files import Reading

USER, ASSISTANT, SYSTEM = ({"role": role, "content": f"{role} says"} for role in ("user", "assistant", "system"))


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [path]


def test_fields_of_any_name(tmp_path):
    files = written(
        tmp_path / "a.jsonl",
        {"instruction": "Say hi.", "output": " Hi\n"},
        {"id": 7, "instruction": "a", "output": "b"},
    )
    rows, found = chat.load(files, "mine", "instruction", "output", None)
    assert rows == [
        {"example_id": "mine-000001", "prompt": "Say hi.", "response": " Hi\n"},
        {"example_id": "7", "prompt": "a", "response": "b"},
    ]
    assert found == {}


def test_of_a_chat_the_first_exchange_is_taken_and_the_rest_counted(tmp_path):
    turns = ([USER, ASSISTANT], [SYSTEM, USER, ASSISTANT], [USER, ASSISTANT, USER, ASSISTANT])
    files = written(tmp_path / "a.jsonl", *({"messages": one} for one in turns))
    rows, found = chat.load(files, "mine", "prompt", "response", "messages")
    assert [row["prompt"] for row in rows] == ["user says", "system says\n\nuser says", "user says"]
    assert {row["response"] for row in rows} == {"assistant says"}
    assert found == {"whole": 2, "further": 1, "kept": 1}
    assert chat.told(found) == (
        "1 of 3 chats go on after their first exchange, which is taken; "
        "1 prompts have their system message or input in them"
    )


def test_what_a_response_rests_on_stays_in_the_prompt_unless_told_otherwise(tmp_path):
    files = written(
        tmp_path / "a.jsonl",
        {"instruction": "Sum the numbers.", "input": "1 2", "output": "3"},
        {"instruction": "Sum the numbers.", "input": "5 6", "output": "11", "system": "Be brief."},
        {"instruction": "Say hi.", "input": "", "output": "Hi", "system": None},
    )
    rows, found = chat.load(files, "mine", "instruction", "output", None)
    assert [row["prompt"] for row in rows] == [
        "Sum the numbers.\n\n1 2",
        "Be brief.\n\nSum the numbers.\n\n5 6",
        "Say hi.",
    ]
    assert found == {"kept": 2}
    rows, found = chat.load(files, "mine", "instruction", "output", None, context="leave_out")
    assert [row["prompt"] for row in rows] == ["Sum the numbers."] * 2 + ["Say hi."]
    assert chat.told(found) == "the system message or input of 2 prompts is left out"
    rows, found = chat.load(files[:1], "mine", "input", "output", None, reading=Reading(max_left_out=0.5))
    assert [row["prompt"] for row in rows] == ["1 2", "Be brief.\n\n5 6"]  # the prompt itself is nothing beside it


def test_roles_in_capitals_are_the_same_roles(tmp_path):
    turns = [{"role": "User", "content": "a"}, {"role": "ASSISTANT", "content": "b"}]
    rows, _ = chat.load(written(tmp_path / "a.jsonl", {"messages": turns}), "mine", "", "", "messages")
    assert (rows[0]["prompt"], rows[0]["response"]) == ("a", "b")


def test_a_few_rows_that_cannot_be_used_are_left_out_and_counted_by_reason(tmp_path):
    good = [{"messages": [USER, ASSISTANT]}] * 97
    bad = [
        {"messages": [USER, {"role": "assistant", "content": ""}]},
        {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": []}]},
        {"messages": [SYSTEM, SYSTEM, USER, ASSISTANT]},
    ]
    files, reading = written(tmp_path / "a.jsonl", *good, *bad), Reading()
    rows, _ = chat.load(files, "mine", "", "", "messages", reading=reading)
    assert len(rows) == 97
    assert reading.left_out == {
        "field 'content' is empty": 1,
        "field 'content' must be a string": 1,
        "a chat by system, system, user, …": 1,
    }
    assert reading.first == f"{files[0]}:98: field 'content' is empty; fill it or remove the line"
    with pytest.raises(
        DataError, match=r":98: .*\(3 of 100 rows cannot be used: .*max_left_out allows a share of 0.02\)"
    ):
        chat.load(files, "mine", "", "", "messages", reading=Reading(max_left_out=0.02))


@pytest.mark.parametrize(
    ("row", "messages", "message"),
    [
        ({"prompt": "x"}, None, r"a\.jsonl:1: field 'response' is missing; known: prompt"),
        ({"prompt": "", "response": "y"}, None, "field 'prompt' is empty"),
        (
            {"messages": [ASSISTANT, USER]},
            "messages",
            "a chat by assistant, user.*; it must begin with user and assistant",
        ),
        ({"messages": [SYSTEM]}, "messages", "a chat by system; "),
        ({"messages": []}, "messages", "a chat by nobody; "),
        ({"messages": "x"}, "messages", "field 'messages' must be a list of objects"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, "messages", "field 'content' must be a string"),
    ],
)
def test_a_row_that_is_no_instruction_is_named(tmp_path, row, messages, message):
    with pytest.raises(DataError, match=message):
        chat.load(written(tmp_path / "a.jsonl", row), "mine", "prompt", "response", messages)
