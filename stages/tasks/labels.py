r"""Short labels for worked solutions: the last \boxed{}, else the words "the answer is", else Math-Verify.

A solution without a label is left out and counted, because nothing could grade it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

HOWS = ("boxed", "stated", "math_verify")
MAX_LABEL_CHARS = 300  # the longest answers of MATH have about as many
MAX_LINE_CHARS = 300
_BOX = "\\boxed{"
_BARE_BOX = re.compile(r"\\boxed +([^\s{}$]+)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_STATES = re.compile(r"\banswer(?:\s+is|\s*[:=])\s*:?[*\s]*", re.IGNORECASE)
_MATHS = re.compile(r"\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SENTENCE_END = re.compile(r"[.!](?:\s|$)")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_TAG = re.compile(r"</?(?:think|answer)>")


def last_boxed(text: str) -> str | None:
    r"""Content of the last complete, non-empty `\boxed{...}` (or `\boxed 5`, as MATH has it), None without one.

    Apart from the grader's own function on purpose: an edit of the grader must not make every dataset anew.
    """
    start = text.rfind(_BOX)
    while start >= 0:
        content = _braced(text, start + len(_BOX))
        if content:
            return content
        start = text.rfind(_BOX, 0, start)
    bare = _BARE_BOX.findall(text)
    return bare[-1] if bare else None


def _braced(text: str, start: int) -> str | None:
    """The text from `start` up to the brace that closes one opened before it; escaped braces do not count."""
    depth = 1
    for match in _BRACE.finditer(text, start, start + 4 * MAX_LABEL_CHARS):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return text[start : match.start()].strip()
    return None


def short_label(solution: str) -> tuple[str | None, str]:
    """(label, how it was found): `boxed`, `stated` ("the answer is"), `math_verify`, or None and `none`."""
    for how, find in zip(HOWS, (last_boxed, _stated, _last_maths), strict=True):
        label = find(solution)
        if label and len(label) <= MAX_LABEL_CHARS:
            return label, how
    return None, "none"


def _stated(solution: str) -> str | None:
    """What follows the last "answer is" or "answer:": the formula that it starts with, else a few words at most."""
    ends = [match.end() for match in _STATES.finditer(solution)]
    if not ends:
        return None
    stated = solution[ends[-1] : ends[-1] + 2 * MAX_LABEL_CHARS]
    maths = _MATHS.match(stated)
    if maths:
        label = next(group for group in maths.groups() if group).strip()
        return None if _WORD.search(label) else label  # prose between two prices
    label = _SENTENCE_END.split(stated.partition("\n")[0].replace("**", ""), maxsplit=1)[0].strip()
    return label if len(_WORD.findall(label)) <= 3 and re.search(r"\w", label) else None


def _last_maths(solution: str) -> str | None:
    """The LaTeX that Math-Verify reads in the last line: one further up is a step. None where it is not installed.

    Only its LaTeX grammar is used, which builds expressions without evaluating them; its grammar for plain text would
    go through SymPy's parse_expr.
    """
    line = solution.rstrip().rpartition("\n")[2]
    if len(line) > MAX_LINE_CHARS:
        return None
    try:
        from math_verify import LatexExtractionConfig, parse
    except ImportError:
        return None
    read = parse(line, extraction_config=[LatexExtractionConfig()], parsing_timeout=2)
    if len(read) != 2 or not re.search(r"\d", read[1]) or _WORD.search(read[1]):  # a bare `x`, or prose between prices
        return None
    return read[1].strip()


def worked_response(solution: str, label: str) -> str:
    """What a policy under r1_zero should write: the solution, free of the format's own tags, then the label."""
    return f" {_TAG.sub('', solution).strip()} </think> <answer> {label} </answer>"


def labelled_row(question: str, solution: str, found: Counter[str]) -> dict[str, Any] | None:
    """Question, label and worked response; None without a label. `found` counts how labels were found."""
    label, how = short_label(solution)
    found[how] += 1
    if label is None:
        return None
    return {"question": question, "ground_truth": label, "response": worked_response(solution, label)}


def told(found: dict[str, int]) -> str:
    """In words: how many solutions were left out for want of a label, and how the others got theirs."""
    total, without = sum(found.values()), found.get("none", 0)
    ways = ", ".join(f"{found[how]} {how}" for how in HOWS if found.get(how))
    return (
        f"{without} of {total} solutions ({without / total:.2%}) have no short label and are left out; labels: {ways}"
    )
