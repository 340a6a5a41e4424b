"""Questions of the user's own, in files of any form that is read here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from stages.tasks.files import Reading, examples
from stages.tasks.rows import BadRow, Object, text, unrender

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def load(
    files: Sequence[Path],
    name: str,
    question: str,
    answer: str | None,
    response: str | None = None,
    rendered: str | None = None,
    reading: Reading | None = None,
) -> list[Object]:
    """EXAMPLES rows; `question`, `answer` and `response` name the fields to read.

    An answer may be a number; everything else is a non-empty string. Without a field for it, the answer is what stands
    in the response's last `<answer>`. A response is taken as it is: the policy will learn to write it straight after
    the prompt. `rendered` names the prompt that questions have around them already. Raises DataError.
    """

    def convert(row: Object, where: str) -> Object:
        asked, written = text(row, question, where), None if response is None else text(row, response, where)
        return {
            "question": unrender(rendered, asked, where) if rendered else asked,
            "ground_truth": text(row, answer, where, numbers=True) if answer else answered(written or "", where),
            "response": written,
        }

    return examples(files, name, convert, reading)


def answered(response: str, where: str) -> str:
    """What the last `<answer>` of a response holds; raises BadRow where there is none."""
    found = [one.strip() for one in _ANSWER.findall(response) if one.strip()]
    if not found:
        raise BadRow(where, "the response holds no <answer>", "; name the field of the answer")
    return found[-1]
