"""Instruction data: what is taken of a row and of a chat, and what is refused."""

import json

import pytest

from stages.records import DataError
from stages.tasks import chat

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
    assert {(row["prompt"], row["response"]) for row in rows} == {("user says", "assistant says")}
    assert found == {"whole": 2, "further": 1}
    assert chat.told(found) == "1 of 3 chats go on after their first exchange, which is taken"


@pytest.mark.parametrize(
    ("row", "messages", "message"),
    [
        ({"prompt": "x"}, None, r"a\.jsonl:1: field 'response' is missing; known: prompt"),
        ({"prompt": "", "response": "y"}, None, "field 'prompt' is empty"),
        (
            {"messages": [ASSISTANT, USER]},
            "messages",
            "a chat by assistant, user; it must begin with user and assistant",
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
