"""Graded responses in the three buckets of the zero-shot question: right, well-formed but wrong, no answer found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.examples import drawn

Row = Mapping[str, Any]
BUCKETS = {
    "correct": "format 1, answer 1: right",
    "wrong": "format 1, answer 0: an answer was found and it is not the reference",
    "unformatted": "format 0, answer 0: no answer was found",
    "ungraded": "timeout, too long or a bad reference: counted as wrong",
}
EXAMPLES = {"correct": 3, "wrong": 10, "unformatted": 10, "ungraded": 10}


@dataclass(frozen=True)
class Bucket:
    """Responses of one kind: how many, and a few drawn at random."""

    name: str
    meaning: str
    count: int
    share: float
    examples: tuple[Row, ...]


def bucket_of(row: Row) -> str:
    return row["verdict"] if row["verdict"] in BUCKETS else "ungraded"


def buckets(rows: Sequence[Row]) -> list[Bucket]:
    """All responses in their buckets; the last one is left out while it is empty."""
    found: dict[str, list[Row]] = {name: [] for name in BUCKETS}
    for row in rows:
        found[bucket_of(row)].append(row)
    return [
        Bucket(name, BUCKETS[name], len(inside), len(inside) / max(1, len(rows)), tuple(drawn(inside, EXAMPLES[name])))
        for name, inside in found.items()
        if inside or name != "ungraded"
    ]


# First match wins, so every response is counted once. The first line is the parser's own strictness, the rest are the
# model's: which of the two is at fault is what the buckets are read for.
R1_ZERO_SYMPTOMS = {
    "</think> and <answer> not separated by exactly one space": re.compile(r"</think>(?! <answer>)\s*<answer>"),
    "began a new User turn": re.compile(r"\n\s*User:"),
}


NOT_FOUND = {"mmlu": "named no option's letter, or several", "gsm8k": "wrote no number"}


def symptom(row: Row, reward: str = "") -> str:
    """Why an unformatted response has no answer for `reward`, as far as its text shows it."""
    text = row["response"]
    if reward in NOT_FOUND:
        return "hit the token limit" if row["finish_reason"] == "length" else NOT_FOUND[reward]
    boxed = "<think>" not in row["prompt"]
    if not boxed:
        for name, pattern in R1_ZERO_SYMPTOMS.items():
            if pattern.search(text):
                return name
    if row["finish_reason"] == "length":
        return "hit the token limit"
    if boxed:
        return "wrote \\boxed but no answer could be read from it" if "\\boxed" in text else "wrote no \\boxed answer"
    for tag in ("</think>", "<answer>", "</answer>"):
        if tag not in text:
            return f"never wrote {tag}"
    return "other"


def symptoms(rows: Iterable[Row], reward: str = "") -> list[tuple[str, int]]:
    """How often each symptom occurs among the unformatted responses, most frequent first."""
    counts: dict[str, int] = {}
    for row in rows:
        if bucket_of(row) == "unformatted":
            why = symptom(row, reward)
            counts[why] = counts.get(why, 0) + 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def answer_text(response: str) -> str:
    """What the response offers as its answer, for reading beside the reference: the text of the last <answer> or the
    last \\boxed, untouched. The grader decides by its own rules."""
    if "<answer>" in response:
        return response.rsplit("<answer>", 1)[1].split("</answer>", 1)[0].strip()
    at = response.rfind("\\boxed{")
    return _braced(response[at + len("\\boxed{") :]) if at >= 0 else ""


def _braced(text: str) -> str:
    """The text up to the brace that closes it; all of it where none does."""
    depth = 1
    for at, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return text[:at].strip()
    return text.strip()
