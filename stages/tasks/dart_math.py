"""DART-Math (Tong et al., arXiv 2407.13690): questions of MATH and GSM8K with sampled solutions that were checked.

A question comes with several solutions, each a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.tasks.files import Reading, examples
from stages.tasks.labels import labelled_row
from stages.tasks.rows import text


def load(
    files: Sequence[Path], name: str, reading: Reading | None = None
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """EXAMPLES rows with responses in r1_zero form, and how many labels were found in which way (`none`: left out).

    Raises DataError naming file and line.
    """
    found: Counter[str] = Counter()

    def convert(row: dict[str, Any], where: str) -> dict[str, Any] | None:
        return labelled_row(text(row, "query", where), text(row, "response", where), found)

    return examples(files, name, convert, reading), dict(found)
