"""GSM8K's own files (Cobbe et al., arXiv 2110.14168): a question, and a worked answer that ends in `#### <number>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.tasks.files import Reading, examples
from stages.tasks.gsm8k_answers import gsm8k_gold
from stages.tasks.prompts import render
from stages.tasks.rows import BadRow, text

_CALCULATION = re.compile(r"<<[^<>\n]*>>")


def load(
    files: Sequence[Path], name: str, question_form: str = "bare", reading: Reading | None = None
) -> list[dict[str, Any]]:
    """EXAMPLES rows; the response is the worked answer in r1_zero form, so the file serves fine-tuning too.

    With `question_form` "zero_shot" the question stands in the assignment's zero-shot form. Raises DataError naming
    file and line.
    """
    rows = examples(files, name, _convert, reading)
    if question_form == "zero_shot":
        return [{**row, "question": render("gsm8k_zero_shot", question=row["question"])} for row in rows]
    return rows


def _convert(row: dict[str, Any], where: str) -> dict[str, Any]:
    answer = text(row, "answer", where)
    try:
        gold = gsm8k_gold(answer)
    except ValueError as error:
        raise BadRow(where, "its answer does not end in `#### <number>`", f": {error}") from None
    return {
        "question": text(row, "question", where),
        "ground_truth": gold,
        "response": worked_response(answer.rpartition("####")[0], gold),
    }


def worked_response(solution: str, gold: str) -> str:
    """What a policy under r1_zero should write: the worked answer without calculator notes (`<<48/2=24>>`)."""
    return f" {_CALCULATION.sub('', solution).strip()} </think> <answer> {gold} </answer>"
