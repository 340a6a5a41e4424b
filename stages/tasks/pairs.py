"""Preferences of the user's own: a prompt with two responses a row, as text or as chats of one exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.tasks.chat import Exchange, context_of, first_exchange, is_chat
from stages.tasks.files import Reading, examples
from stages.tasks.rows import text

Row = dict[str, Any]
REASONS = {
    "several_turns": "have several turns",
    "no_answer": "lack a prompt or an answer",
    "other_prompt": "answer two different prompts",
    "same_answer": "hold the same answer twice",
    "other_part": "belong to the other part",
}


def load(
    files: Sequence[Path], name: str, prompt: str, chosen: str, rejected: str, reading: Reading | None = None
) -> tuple[list[Row], dict[str, int]]:
    """PREFERENCES rows, and how many were `kept` or left out, and why. `prompt`, `chosen` and `rejected` name fields.

    Responses may be chats, lists of `{role, content}`: whole ones, which hold the prompt as well, or what follows a
    `prompt` that is such a list too. Fields `system` and `input` stand in the prompt, as those of instructions do.
    Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()

    def convert(row: Row, where: str) -> Row | None:
        reason, pair = _pair(row, (prompt, chosen, rejected), where)
        found[reason] += 1
        return pair

    return examples(files, name, convert, reading), dict(found)


def _pair(row: Row, fields: tuple[str, str, str], where: str) -> tuple[str, Row | None]:
    """(`kept`, the pair), or (why not, None)."""
    prompt, chosen, rejected = fields
    if not is_chat(row.get(chosen)):
        question, better, worse = (text(row, field, where) for field in fields)
        asked = Exchange(question, better, *context_of(row, fields, where)).prompt()
    else:
        one, two = (first_exchange(_turns(row, prompt, field), field, where) for field in (chosen, rejected))
        if one.further or two.further:
            return "several_turns", None
        asked, other, better, worse = one.prompt(), two.prompt(), one.response, two.response
        if asked != other:
            return "other_prompt", None
    if better == worse:
        return "same_answer", None
    return "kept", {"prompt": asked, "chosen": better, "rejected": worse, "category": None}


def _turns(row: Row, prompt: str, field: str) -> Any:
    """The whole chat, where the field holds one."""
    return row[prompt] + row[field] if is_chat(row.get(prompt)) and is_chat(row.get(field)) else row.get(field)


def told(found: dict[str, int]) -> str:
    """In words: how many pairs were kept, and why the others were not."""
    reasons = [f"{found[key]} {words}" for key, words in REASONS.items() if found.get(key)]
    left_out = f"; left out: {', '.join(reasons)}" if reasons else ""
    return f"{found.get('kept', 0)} of {sum(found.values())} pairs kept{left_out}"
