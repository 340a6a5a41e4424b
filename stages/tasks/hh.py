"""Anthropic's HH preferences (Bai et al., arXiv 2204.05862): two transcripts, of which people preferred one.

Transcripts of several turns are left out: what the two have in common need not be a prompt, because they part where the
people who wrote them went on differently. So are pairs that no preference can be learned from.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from stages.records import DataError
from stages.tasks.files import Reading, examples
from stages.tasks.rows import BadRow, text

Row = dict[str, Any]
Part = Literal["train", "validation"]
_TURN = re.compile(r"\n\n(Human|Assistant):")


def local_files(folder: Path, subsets: Iterable[str], split: str) -> dict[str, Path]:
    """Subset -> its file in `folder`; raises DataError where there is none."""
    found = {}
    for subset in subsets:
        names = [f"{stem}.jsonl{end}" for stem in (subset, f"{subset}/{split}") for end in (".gz", "")]
        there = [folder / name for name in names if (folder / name).is_file()]
        if not there:
            raise DataError(
                f"{folder}: has no file {' or '.join(names)}; put it there, or leave {subset} out of subsets"
            )
        found[subset] = there[0]
    return found


def load(
    files: dict[str, Path], name: str, part: Part | None = None, reading: Reading | None = None
) -> tuple[list[Row], dict[str, int]]:
    """PREFERENCES rows whose `category` is the subset they are of, and how many were `kept` or left out, and why.

    `files`: subset -> JSON Lines, gzipped or not. Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()
    rows: list[Row] = []
    for subset, path in files.items():

        def convert(row: Row, where: str, subset: str = subset) -> Row | None:
            reason, pair = _pair(row, where, part)
            found[reason] += 1
            return None if pair is None else {**pair, "category": subset}

        rows += examples([path], f"{name}-{subset}", convert, reading)
    return rows, dict(found)


def _pair(row: Row, where: str, part: Part | None) -> tuple[str, Row | None]:
    """(`kept`, the pair), or (why not, None)."""
    chosen, rejected = (_turns(row, key, where) for key in ("chosen", "rejected"))
    if max(_questions(chosen), _questions(rejected)) > 1:
        return "several_turns", None
    speakers = [speaker for turns in (chosen, rejected) for speaker, _ in turns]
    if speakers != ["Human", "Assistant"] * 2 or not all(said for _, said in chosen + rejected):
        return "no_answer", None
    (_, prompt), (_, better) = chosen
    (_, other), (_, worse) = rejected
    if prompt != other:
        return "other_prompt", None
    if better == worse:
        return "same_answer", None
    if part is not None and part_of(prompt) != part:
        return "other_part", None
    return "kept", {"prompt": prompt, "chosen": better, "rejected": worse}


def _turns(row: Row, key: str, where: str) -> list[tuple[str, str]]:
    """(speaker, what was said) of each turn of a transcript."""
    before, *parts = _TURN.split(text(row, key, where))
    if before.strip() or not parts:
        raise BadRow(where, f"field {key!r} is no transcript", "; it must begin with a blank line and `Human:`")
    return [(speaker, said.strip()) for speaker, said in zip(parts[::2], parts[1::2], strict=True)]


def _questions(turns: list[tuple[str, str]]) -> int:
    return sum(speaker == "Human" for speaker, _ in turns)


def part_of(prompt: str) -> Part:
    """One prompt in 32 is for validation."""
    return "validation" if hashlib.sha256(prompt.encode()).digest()[0] % 32 == 0 else "train"
