"""One row of a data file: its id, its texts, and what is wrong with a row that cannot be used.

A row is refused by BadRow, which the reader of the file counts: one spoilt row of a public set that nobody can mend is
left out and told of, a file of them is refused.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from itertools import islice
from typing import Any

from stages.records import DataError
from stages.strict import nearest
from stages.tasks.prompts import PROMPTS

Object = dict[str, Any]
ID_KEYS = ("unique_id", "id")
MOST_NAMES = 30  # of the fields of a row, in a message
_DIGITS = re.compile(r"\s*[-+]?\d[\d_,]*\.?\d*\s*")
# Prompts that go around a question: a text that holds what stands before their question was rendered already.
AROUND = {name: PROMPTS[name].partition("{")[0].strip() for name in ("r1_zero", "alpaca", "zero_shot")}


class BadRow(DataError):
    """A row that cannot be used. `reason` is what such rows are counted by, `rest` what only this one shows."""

    def __init__(self, where: str, reason: str, rest: str = "") -> None:
        super().__init__(f"{where}: {reason}{rest}")
        self.reason = reason


def identify(row: Object, name: str, number: int, where: str) -> tuple[str, str]:
    """The row's own id or `<name>-<number>`, and the key that would have to change if another row has it too."""
    own = next((key for key in ID_KEYS if row.get(key) is not None), None)
    if own is None:
        return f"{name}-{number:06d}", ID_KEYS[0]
    return text(row, own, where, numbers=not isinstance(row[own], str)), own  # as text, 1e999 is an id like any other


def text(row: Object, key: str, where: str, numbers: bool = False) -> str:
    """The string `row[key]`, as it is, or with `numbers` a finite number as it is written. Raises BadRow where it is
    missing, blank or of another type: a date, say, has no one form that an answer could be compared with."""
    if key not in row:
        known = [printable(name) for name in islice(row, MOST_NAMES)]
        raise BadRow(where, f"field {key!r} is missing", f"; {nearest(key, known)}")
    value = row[key]
    if numbers and not _finite(value):
        raise BadRow(where, f"field {key!r} is no finite number", f" (got {value!r:.40}); fill it or remove the line")
    if numbers and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        kinds = "a string or a number" if numbers else "a string"
        raise BadRow(where, f"field {key!r} must be {kinds}", f" (got {shown(value)})")
    if not value.strip():
        raise BadRow(where, f"field {key!r} is empty", "; fill it or remove the line")
    refuse_half_characters(value, key, where)
    return value


def refuse_half_characters(value: str, key: str, where: str) -> None:
    """Raise BadRow where a JSON escape gave half a surrogate pair: no file could hold it."""
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise BadRow(where, f"field {key!r} holds half a surrogate pair", ", which is not text; repair the escape")


def _finite(value: Any) -> bool:
    """False for a missing number: NaN, infinity, and as text what CSV and quotes make of them: nan, inf, 1e999. What is
    no number is not meant, nor an integer of more digits than a float has range for."""
    try:
        return math.isfinite(float(value)) or (isinstance(value, str) and _DIGITS.fullmatch(value) is not None)
    except (TypeError, ValueError, OverflowError):
        return True


def printable(name: str) -> str:
    """A name out of a file as an error message shows it: on one line, and not without end."""
    return name if name.isprintable() and len(name) <= 40 else f"{name!r:.40}"


def shown(value: Any) -> str:
    """A cell as an error message shows it: JSON where it is that, else its type as well."""
    try:
        return f"{json.dumps(value):.80}"
    except (TypeError, ValueError, RecursionError):
        return f"{type(value).__name__} {value!s:.60}"


def beside(row: Object, key: str, where: str) -> str:
    """What a field adds to a question, "" where it is missing, null, NaN or blank. Raises BadRow where it is neither
    text nor a number: what a response rests on is never dropped unseen."""
    value = row.get(key)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str) and not value.strip():
        return ""
    return text(row, key, where, numbers=not isinstance(value, str)).strip()


def refuse_rendered(question: str, where: str) -> None:
    """Raise BadRow where a question is a whole prompt: the one that stages put around it would be the second."""
    for name, before in AROUND.items():
        if before in question:
            raise BadRow(
                where,
                f"the question is rendered already, by the prompt {name}",
                "; give bare questions, or, with source jsonl, say `rendered: <prompt>`, which cuts them out",
            )


def unrender(name: str, prompt: str, where: str) -> str:
    """The question inside a prompt rendered by the template `name`; raises BadRow where it is not that."""
    before, _, after = (part.rstrip() for part in PROMPTS[name].partition("{question}"))
    inside = prompt.rstrip()
    question = inside[len(before) : len(inside) - len(after)].strip()
    if not (inside.startswith(before) and inside.endswith(after) and question):
        raise BadRow(where, f"the question is not rendered by the prompt {name}", "; drop `rendered`, or name another")
    return question
