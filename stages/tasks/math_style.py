r"""MATH and its like (Hendrycks et al., arXiv 2103.03874): `problem`, `solution` or `answer`, perhaps a `level`.

The reference is `answer`, else the last `\boxed{}` of `solution`; the mathematical grader compares.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.tasks.files import Reading, examples
from stages.tasks.labels import last_boxed, worked_response
from stages.tasks.rows import BadRow, text

_LEVEL = re.compile(r"(?:Level )?([0-9]+)")


def load(
    files: Sequence[Path],
    name: str,
    levels: Sequence[int] | None = None,
    responses: bool = False,
    reading: Reading | None = None,
) -> list[dict[str, Any]]:
    """EXAMPLES rows, of the given levels alone if any are given (`Level ?` is of none).

    With `responses`, each row's solution is its worked response in r1_zero form. Raises DataError naming file and line.
    """

    def convert(row: dict[str, Any], where: str) -> dict[str, Any] | None:
        if levels is not None and _level(row, where) not in levels:
            return None
        answer = _answer(row, where)
        return {
            "question": text(row, "problem", where),
            "ground_truth": answer,
            "response": worked_response(text(row, "solution", where), answer) if responses else None,
        }

    return examples(files, name, convert, reading)


def _answer(row: dict[str, Any], where: str) -> str:
    if row.get("answer") is not None:
        return text(row, "answer", where, numbers=True)
    if row.get("solution") is None:
        raise BadRow(where, "neither an answer nor a solution", "; it needs one of these fields beside `problem`")
    boxed = last_boxed(text(row, "solution", where))
    if boxed is None:
        raise BadRow(where, "no field `answer`", ", and no complete \\boxed{} in the solution to take it from")
    return boxed


def _level(row: dict[str, Any], where: str) -> int | None:
    level = text(row, "level", where, numbers=True)
    match = _LEVEL.fullmatch(level.strip())
    if match is None and level.strip() != "Level ?":
        raise BadRow(
            where, "the level is neither a number nor `Level <number>`", f" (got {level!r:.40}); mend it or drop levels"
        )
    return int(match[1]) if match else None
