"""Tulu 3 SFT Math (Lambert et al., arXiv 2411.15124): chats of one question and one worked, generated solution.

Some of its solutions are wrong, and so are the labels taken from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.tasks.chat import first_exchange
from stages.tasks.files import Reading, examples
from stages.tasks.labels import labelled_row
from stages.tasks.rows import BadRow


def load(
    files: Sequence[Path], name: str, reading: Reading | None = None
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """EXAMPLES rows with responses in r1_zero form, and how many labels were found in which way (`none`: left out).

    Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()

    def convert(row: dict[str, Any], where: str) -> dict[str, Any] | None:
        return labelled_row(*_turns(row, where), found)

    return examples(files, name, convert, reading), dict(found)


def _turns(row: dict[str, Any], where: str) -> tuple[str, str]:
    """Question and solution of a chat of one exchange; a system message stands before the question. Raises BadRow."""
    exchange = first_exchange(row.get("messages"), "messages", where)
    if exchange.further:
        raise BadRow(where, "a chat of several turns", ", and an example is one question and one solution")
    return exchange.prompt(), exchange.response
