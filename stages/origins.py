"""What every source of a dataset has in common: the kind of its rows, who reads its answers, where its files lie."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from stages.strict import Fraction, Named, Positive, Strict

MAX_LEFT_OUT = 0.05  # share of a file's rows
MAX_BYTES = 4 * 2**30

RewardName = Literal["r1_zero", "question_only", "mmlu", "gsm8k"]
RowKind = Literal["questions", "instructions", "preferences"]  # what a dataset holds, and what a stage trains on


def refuse_moving(revision: str | None, what: str) -> None:
    """Raise ValueError where `revision` is no commit: what a branch or tag names may be something else tomorrow."""
    if not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
        raise ValueError(
            f"hub needs revision, the commit that pins {what}: 40 hexadecimal digits, as its page on the Hub shows "
            f"them in its history (got {revision!r}; a branch or tag may move)"
        )


class Source(Strict):
    """One dataset. `rewards` are those that can tell a right answer to its questions; none where a judge decides.
    `has_baseline` says that the ground truth is a text that responses can be compared with.
    """

    rows: ClassVar[RowKind] = "questions"
    rewards: ClassVar[tuple[RewardName, ...]] = ("r1_zero", "question_only", "gsm8k")
    has_baseline: ClassVar[bool] = False


class ReadSource(Source):
    """One that is read from files, of which a part may be unusable."""

    max_left_out: Fraction = Field(
        MAX_LEFT_OUT,
        description="Share of rows that may be unusable (an empty answer, a tool's turn, an id that is there twice): "
        "they are left out and counted by reason; where there are more, the stage stops.",
    )
    max_bytes: Positive = Field(MAX_BYTES, description="What a file may unpack to, in bytes; a larger one is refused.")


class DatasetFiles(ReadSource):
    """Rows of a local file (`path`) or of a Hub dataset (`hub`, an id) at a pinned `revision`.

    JSON Lines, a JSON array and Parquet are told apart by their content, CSV and TSV by their names; text may be
    gzipped.

    Of a Hub dataset, `file` names one file, or `split` (with `config`, where it has several) the files of a split.
    """

    path: Named | None = None
    hub: Named | None = None
    revision: Named | None = None
    config: Named | None = None
    split: Named | None = None
    file: Named | None = None

    @model_validator(mode="after")
    def one_origin(self) -> DatasetFiles:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give exactly one of path (a local file) and hub (the id of a Hub dataset)")
        return self

    @model_validator(mode="after")
    def hub_is_pinned(self) -> DatasetFiles:
        stray = [key for key in ("revision", "config", "split", "file") if getattr(self, key) is not None]
        if self.hub is None:
            if stray:
                raise ValueError(f"{', '.join(stray)} can only be given together with hub")
            return self
        refuse_moving(self.revision, "the data")
        if (self.file is None) == (self.split is None):
            raise ValueError("hub needs exactly one of file (a name in the dataset) and split (such as train)")
        if self.file is not None and self.config is not None:
            raise ValueError("config belongs to split; a file is named by its whole path in the dataset")
        return self
