"""Tulu 3 SFT Math (Lambert et al., arXiv 2411.15124): chats of one question and one worked, generated solution.

Some of its solutions are wrong, and so are the labels taken from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.records import DataError
from stages.tasks.files import examples
from stages.tasks.jsonl import text
from stages.tasks.labels import labelled_row


def load(files: Sequence[Path], name: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """EXAMPLES rows with responses in r1_zero form, and how many labels were found in which way (`none`: left out).

    Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()

    def convert(row: dict[str, Any], where: str) -> dict[str, Any] | None:
        return labelled_row(*_turns(row, where), found)

    return examples(files, name, convert), dict(found)


def _turns(row: dict[str, Any], where: str) -> tuple[str, str]:
    """Question and solution of a chat; a system message in front of them is left out."""
    messages = row.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise DataError(f"{where}: field 'messages' must be a list of objects with `role` and `content`")
    roles = [text(message, "role", where) for message in messages]
    if roles not in (["user", "assistant"], ["system", "user", "assistant"]):
        raise DataError(
            f"{where}: messages by {', '.join(roles) or 'nobody'}; one of user and one of assistant are needed, "
            "because an example is one question and one solution"
        )
    question, solution = (text(message, "content", where) for message in messages[-2:])
    return question, solution
