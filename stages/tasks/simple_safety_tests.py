"""SimpleSafetyTests (Vidgen et al., arXiv 2311.08370): prompts of five harm areas; a judge says which answers are safe.

There is no right answer, so the harm area takes the place of the ground truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.tasks.files import Reading, examples
from stages.tasks.rows import text

Row = dict[str, Any]
PROMPT_KEYS = ("prompts_final", "prompt")  # of the published CSV, and of the Hub's rows


def load(files: Sequence[Path], name: str, reading: Reading | None = None) -> list[Row]:
    """EXAMPLES rows from rows of `id`, `harm_area` and `prompts_final` (or `prompt`). Raises DataError."""

    def convert(row: Row, where: str) -> Row:
        key = next((key for key in PROMPT_KEYS if key in row), PROMPT_KEYS[0])
        return {
            "question": text(row, key, where),
            "ground_truth": text(row, "harm_area", where),
            "response": None,
        }

    return examples(files, name, convert, reading)
