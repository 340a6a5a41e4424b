"""Instruction data: one instruction and one response a row, or chats, of which the first exchange is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stages.tasks.files import Reading, examples
from stages.tasks.rows import BadRow, beside, printable, text

Row = dict[str, Any]
CONTEXT = ("system", "input")  # fields of a row that a response rests on, beside the prompt, in sets of the Alpaca kind


class Exchange(NamedTuple):
    """What was asked and answered, what a system or an input adds to the question ("" where there is none), and whether
    the chat goes on after that."""

    question: str
    response: str
    system: str = ""
    given: str = ""
    further: bool = False

    def prompt(self) -> str:
        """System, question and input, a blank line between."""
        return "\n\n".join(part for part in (self.system, self.question, self.given) if part)


def load(
    files: Sequence[Path],
    name: str,
    prompt: str,
    response: str,
    messages: str | None,
    context: str = "keep",
    reading: Reading | None = None,
) -> tuple[list[Row], dict[str, int]]:
    """INSTRUCTIONS rows; of chats, also how many were `whole` and how many went `further` than their first exchange; of
    all, how many prompts have a system's message or an input `kept` in them, or `dropped` where `context` is leave_out.

    `prompt` and `response` name fields of text. `messages`, where given, names a field of `{role, content}` objects.
    Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()

    def convert(row: Row, where: str) -> Row:
        if messages is None:
            exchange = _exchange(row, prompt, response, where)
        else:
            exchange = first_exchange(row.get(messages), messages, where)
            found["further" if exchange.further else "whole"] += 1
        if exchange.system or exchange.given:
            found["kept" if context == "keep" else "dropped"] += 1
        asked = exchange.prompt() if context == "keep" else exchange.question
        return {"prompt": asked, "response": exchange.response}

    return examples(files, name, convert, reading), dict(found)


def _exchange(row: Row, prompt: str, response: str, where: str) -> Exchange:
    """The exchange of a row of fields; what stands in fields `system` and `input` belongs to the question."""
    system, given = context_of(row, (prompt, response), where)
    return Exchange(text(row, prompt, where), text(row, response, where), system, given)


def context_of(row: Row, fields: Sequence[str], where: str) -> tuple[str, str]:
    """What the fields `system` and `input` hold, where they are none of those named for something else."""
    system, given = ("" if key in fields else beside(row, key, where) for key in CONTEXT)
    return system, given


def is_chat(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(turn, dict) for turn in value)


def first_exchange(turns: Any, field: str, where: str) -> Exchange:
    """The first question of a chat, with the system's message in front of it, and the answer to it. Raises BadRow."""
    if not is_chat(turns):
        raise BadRow(where, f"field {field!r} must be a list of objects with `role` and `content`")
    roles = [text(turn, "role", where).lower() for turn in turns]
    start = roles[:1] == ["system"]
    if roles[start : start + 2] != ["user", "assistant"]:
        by = ", ".join(map(printable, roles[:3])) + (", …" if len(roles) > 3 else "") or "nobody"
        raise BadRow(where, f"a chat by {by}", "; it must begin with user and assistant")
    question, answer = (text(turn, "content", where) for turn in turns[start : start + 2])
    system = beside(turns[0], "content", where) if start else ""
    return Exchange(question, answer, system, further=len(turns) > start + 2)


def told(found: dict[str, int]) -> str:
    """In words: what of chats was taken, and what became of what stood beside the prompts."""
    chats = found.get("whole", 0) + found.get("further", 0)
    said = []
    if chats:
        said.append(f"{found.get('further', 0)} of {chats} chats go on after their first exchange, which is taken")
    if kept := found.get("kept"):
        said.append(f"{kept} prompts have their system message or input in them")
    if dropped := found.get("dropped"):
        said.append(f"the system message or input of {dropped} prompts is left out")
    return "; ".join(said)
