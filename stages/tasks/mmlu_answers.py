"""MMLU answers: the letter of "The correct answer is _"."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_READ_AHEAD = 1_000  # characters read behind the phrase, enough to compare a repeated option
_PHRASE = re.compile(r"\banswer\s+is\b\s*:?", re.IGNORECASE)
_LETTER = re.compile(
    r"\s*(?:(?:option|choice|letter)\s+)?"
    r"(?:\\boxed\{|\\text(?:bf)?\{|\\\(|[*_`$\"'“‘(\[{])*"  # emphasis, quotes, brackets, a box
    r"([A-Z])(?![A-Za-z0-9])"
    r"(?:[*_`$\"'”’)\]}]|\\\))*"
)
_ANOTHER = re.compile(r"[\s,/&]*(?:(?:and|or|and/or)\s+)?[(*_\"']*[A-Z](?![A-Za-z0-9'’])")
_GOES_ON = re.compile(
    r"\s*(?:$|[^\sA-Za-z0-9])|\s*\n"
    r"|\s+(?:because|since|as|for|due|given|based|according|which)\b"
)


def parse_mmlu_response(mmlu_example: Mapping[str, Any], model_output: str) -> str | None:
    """The option letter that an output names in the sentence "The correct answer is _", or None.

    `mmlu_example` has `subject`, `question`, `options` and `answer`; only the options are read: they bound
    the letters, and may be repeated behind the letter. None, rather than a guess, where the sentence is
    missing, is negated, names a letter out of range, begins with the article "A", hedges between letters, or
    where two such sentences disagree.
    """
    options = mmlu_example["options"]
    ends = [match.end() for match in _PHRASE.finditer(model_output)]
    letters = {_named_letter(options, model_output[end : end + _READ_AHEAD]) for end in ends}
    return letters.pop() if len(letters) == 1 else None


def _named_letter(options: Sequence[str], rest: str) -> str | None:
    match = _LETTER.match(rest)
    if match is None:
        return None
    letter, index, after = match[1], ord(match[1]) - ord("A"), rest[match.end() :]
    if index >= len(options):
        return None
    if after.lstrip(" .:").startswith(str(options[index])[: _READ_AHEAD // 2]):  # an option may begin with a letter
        return letter
    return None if _ANOTHER.match(after) or not _GOES_ON.match(after) else letter


def subject_of(ground_truth: str) -> str | None:
    """The subject that a ground truth of this task names; None for any other."""
    mark, _, body = ground_truth.partition(":")
    try:
        return json.loads(body)["subject"] if mark == "mmlu" else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
