"""How many questions datasets that are used together have in common, whatever their case and white space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages import records
from stages.records import EXAMPLES, INSTRUCTIONS
from stages.reporting import wording


@dataclass(frozen=True)
class Overlap:
    """`shared` of the `questions` of a dataset that is held out stand in `other` as well; `role`: what `other` is to
    the runs, "train" or "validation"."""

    held_out: str
    other: str
    role: str
    shared: int
    questions: int


def overlaps(roles: Mapping[str, Sequence[str]], files: Mapping[str, str]) -> list[Overlap]:
    """Of everything that a policy is measured on, what it may have been trained on; and of the test set, what chose it.

    `roles`: "train", "validation", "test" and "asked" (by other evaluations) -> datasets; those without a file are left
    out.
    """
    wanted = {role: [name for name in names if name in files] for role, names in roles.items()}
    measured = dict.fromkeys(name for role in ("test", "validation", "asked") for name in wanted.get(role, ()))
    pairs = [(held, other, "train") for held in measured for other in wanted.get("train", ()) if held != other]
    pairs += [(held, other, "validation") for held in wanted.get("test", ()) for other in wanted.get("validation", ())]
    read = {name: questions(Path(files[name])) for name in {name for held, other, _ in pairs for name in (held, other)}}
    known = {name: set(texts) for name, texts in read.items()}
    return [
        Overlap(held, other, role, sum(text in known[other] for text in read[held]), len(read[held]))
        for held, other, role in pairs
    ]


def questions(file: Path) -> list[str]:
    """The questions or instructions of a dataset, in small letters and with single spaces."""
    column = "question" if "question" in pq.read_schema(file).names else "prompt"
    field = (EXAMPLES if column == "question" else INSTRUCTIONS).field(column)
    return [
        " ".join(text.split()).casefold() for text in records.read_table(file, pa.schema([field]))[column].to_pylist()
    ]


def sentences(found: Sequence[Overlap]) -> list[str]:
    """One for each dataset that is held out."""
    held = dict.fromkeys((one.held_out, one.questions) for one in found)
    return [
        f"Of the {count} questions of {name}, "
        + wording.listed([f"{one.shared} stand in {one.other}" for one in found if one.held_out == name])
        + "."
        for name, count in held
    ]


def warnings(found: Sequence[Overlap]) -> list[str]:
    """What must stand beside the headline: scores on questions that were trained on, or that chose the policy."""
    return [
        f"{one.shared} of the {one.questions} questions of {one.held_out} stand in {one.other} as well, which "
        + ("is trained on: so much of a score is memory." if one.role == "train" else "chose the winners.")
        for one in found
        if one.shared
    ]
