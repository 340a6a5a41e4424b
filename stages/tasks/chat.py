"""Instruction data: one instruction and one response a row, or chats, of which the first exchange is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.records import DataError
from stages.tasks.files import examples
from stages.tasks.jsonl import text

Row = dict[str, Any]


def load(
    files: Sequence[Path], name: str, prompt: str, response: str, messages: str | None
) -> tuple[list[Row], dict[str, int]]:
    """INSTRUCTIONS rows; of chats, also how many were `whole` and how many went `further` than their first exchange.

    `prompt` and `response` name fields of text. `messages`, where given, names a field of `{role, content}` objects: a
    system's message in front of the first question is left out. Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()

    def convert(row: Row, where: str) -> Row:
        if messages is None:
            return {"prompt": text(row, prompt, where), "response": text(row, response, where)}
        question, answer, further = first_exchange(row.get(messages), messages, where)
        found["further" if further else "whole"] += 1
        return {"prompt": question, "response": answer}

    return examples(files, name, convert), dict(found)


def is_chat(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(turn, dict) for turn in value)


def first_exchange(turns: Any, field: str, where: str) -> tuple[str, str, bool]:
    """The first question of a chat, the answer to it, and whether it goes on after that. Raises DataError."""
    if not is_chat(turns):
        raise DataError(f"{where}: field {field!r} must be a list of objects with `role` and `content`")
    roles = [text(turn, "role", where) for turn in turns]
    start = roles[:1] == ["system"]
    if roles[start : start + 2] != ["user", "assistant"]:
        raise DataError(f"{where}: a chat by {', '.join(roles) or 'nobody'}; it must begin with user and assistant")
    question, answer = (text(turn, "content", where) for turn in turns[start : start + 2])
    return question, answer, len(turns) > start + 2


def told(found: dict[str, int]) -> str:
    return f"{found.get('further', 0)} of {sum(found.values())} chats go on after their first exchange, which is taken"
