"""Finding the answer in a response: the two format contracts of the assignment.

Both follow the graders that published numbers rest on (Liu et al. 2025, "Understanding R1-Zero-Like Training"):
the tags and the box macro are matched literally, so a tab, a newline or a no-break space between the tags fails.
"""

import re
from dataclasses import dataclass

_BOX_OPENING = "\\boxed{"
_BRACES = re.compile(r"\\boxed\{|\\.|[{}]", re.DOTALL)


@dataclass(frozen=True)
class Extraction:
    """`formatted` says whether the format gate passed; `answer` is None where the gate passed without an answer."""

    formatted: bool
    answer: str | None
    reason: str


def last_boxed(text: str) -> str | None:
    r"""Content of the last complete `\boxed{...}` by brace counting, None if there is none; linear in len(text)."""
    start = text.find(_BOX_OPENING)
    if start < 0:
        return None
    opened: list[int | None] = []  # one entry an open brace: where a box's content starts, None for other braces
    best: tuple[int, int] | None = None
    for match in _BRACES.finditer(text, start):
        mark = match.group()
        if mark == _BOX_OPENING:
            opened.append(match.end())
        elif mark == "{":
            opened.append(None)
        elif mark == "}" and opened:
            content = opened.pop()
            if content is not None and (best is None or content > best[0]):
                best = (content, match.start())
    return None if best is None else text[best[0] : best[1]]


def extract_r1_zero(response: str) -> Extraction:
    """The text after the last `<answer>`; the gate wants `</think> <answer>` and `</answer>` somewhere."""
    if "</think> <answer>" not in response:
        return Extraction(False, None, "no `</think> <answer>` (with one space) in the response")
    if "</answer>" not in response:
        return Extraction(False, None, "no `</answer>` in the response")
    answer = response.rpartition("<answer>")[2].replace("</answer>", "")
    if "\\boxed" not in answer:
        return Extraction(True, answer, "text after the last <answer>")
    boxed = last_boxed(answer)
    if boxed is None:
        return Extraction(True, None, "a \\boxed without a complete {...} inside the answer")
    return Extraction(True, boxed, "last \\boxed{} inside the answer")


def extract_question_only(response: str) -> Extraction:
    r"""The content of the last complete `\boxed{}` of the response; without one the response is unformatted."""
    boxed = last_boxed(response)
    if boxed is None:
        return Extraction(False, None, "no complete \\boxed{} in the response")
    return Extraction(True, boxed, "last \\boxed{}")


EXTRACTORS = {
    "r1_zero": extract_r1_zero,
    "question_only": extract_question_only,
}
