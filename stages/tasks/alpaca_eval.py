"""AlpacaEval (Li et al. 2023): instructions without a right answer, each with the response of a baseline.

A judge compares responses with the baseline's, which takes the place of the ground truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.records import DataError
from stages.tasks.files import Reading, examples
from stages.tasks.rows import text

Row = dict[str, Any]


def load(files: Sequence[Path], name: str, reading: Reading | None = None) -> list[Row]:
    """EXAMPLES rows from rows of `instruction`, `output` and, where they have it, the `generator` of all outputs.

    Raises DataError naming file and line, also where outputs are of several generators.
    """
    generators: dict[str, str] = {}

    def convert(row: Row, where: str) -> Row:
        if row.get("generator") is not None:
            generators.setdefault(text(row, "generator", where), where)
        if len(generators) > 1:
            raise DataError(
                f"{where}: outputs of {' and of '.join(generators)} in one file; a baseline is one generator, "
                "keep the rows of one"
            )
        return {
            "question": text(row, "instruction", where),
            "ground_truth": text(row, "output", where),
            "response": None,
        }

    return examples(files, name, convert, reading)
