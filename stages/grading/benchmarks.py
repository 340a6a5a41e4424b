"""Benchmarks with a rule of their own for finding and comparing answers: MMLU's letter, GSM8K's last number.

Nothing here is read as mathematics, and all work is linear in the response, so no worker process is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stages.grading.verdict import Verdict, make_verdict
from stages.tasks.gsm8k_answers import gsm8k_numbers_equal, parse_gsm8k_response
from stages.tasks.mmlu_answers import parse_mmlu_response


def grade_mmlu(response: str, reference: str) -> Verdict:
    """Whether the response names the right letter. `reference` is `mmlu:` and an object of `answer` and `options`."""
    problem = _problem(reference)
    if problem is None:
        return make_verdict("bad_reference", None, "the ground truth is not `mmlu:` with an answer and its options")
    letter = parse_mmlu_response(problem, response)
    if letter is None:
        return make_verdict("unformatted", None, "no sentence that names one option's letter")
    return make_verdict(
        "correct" if letter == problem["answer"] else "wrong", letter, "letter of the answer's sentence"
    )


def _problem(reference: str) -> dict[str, Any] | None:
    mark, _, body = reference.partition(":")
    try:
        problem = json.loads(body) if mark == "mmlu" else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(problem, dict) or not isinstance(problem.get("options"), list):
        return None
    letters = [chr(ord("A") + index) for index in range(len(problem["options"]))]
    return problem if problem.get("answer") in letters else None


def grade_gsm8k(response: str, reference: str) -> Verdict:
    """Whether the last number of the response equals the reference, as numbers."""
    if not gsm8k_numbers_equal(reference, reference):
        return make_verdict("bad_reference", None, "the ground truth is not a number")
    number = parse_gsm8k_response(response)
    if number is None:
        return make_verdict("unformatted", None, "no number in the response")
    equal = gsm8k_numbers_equal(number, reference)
    return make_verdict("correct" if equal else "wrong", number, "last number of the response")


BENCHMARKS: dict[str, Callable[[str, str], Verdict]] = {"mmlu": grade_mmlu, "gsm8k": grade_gsm8k}
