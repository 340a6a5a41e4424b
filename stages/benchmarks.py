"""The benchmarks around instruction tuning, as sources of datasets."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator

from stages.origins import DatasetFiles, ReadSource, RewardName
from stages.strict import Named

MmluSplit = Literal["dev", "val", "test"]


class Mmlu(ReadSource):
    """MMLU (Hendrycks et al., arXiv 2009.03300), its questions in the assignment's multiple-choice form.

    `path` is the folder of the original CSV files, `<subject>_<split>.csv`, or one file of Hub rows; `hub` has the rows
    `question`, `choices`, `answer`, `subject` in its config `all`. `subjects` keeps those, named as the files are.
    """

    rewards: ClassVar[tuple[RewardName, ...]] = ("mmlu",)

    source: Literal["mmlu"]
    path: Named | None = None
    hub: Named | None = None
    revision: Named | None = None
    split: MmluSplit = "test"
    subjects: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def one_origin(self) -> Mmlu:
        if self.path is None:
            self.files()
        elif self.hub is not None or self.revision is not None:
            raise ValueError("give path (a local folder or file) or hub with revision, not both")
        return self

    def files(self) -> DatasetFiles:
        """The Hub's files of the split."""
        split = {"val": "validation"}.get(self.split, self.split)
        return DatasetFiles(hub=self.hub, revision=self.revision, config="all", split=split)


class AlpacaEval(DatasetFiles):
    """AlpacaEval's instructions, each with the `output` of the generator that a judge compares responses with."""

    rewards: ClassVar[tuple[RewardName, ...]] = ()
    has_baseline: ClassVar[bool] = True

    source: Literal["alpaca_eval"]


class SimpleSafetyTests(DatasetFiles):
    """SimpleSafetyTests (Vidgen et al., arXiv 2311.08370): prompts that no assistant should comply with."""

    rewards: ClassVar[tuple[RewardName, ...]] = ()

    source: Literal["simple_safety_tests"]
