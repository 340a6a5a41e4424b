"""How rollouts go through the model: responses to one prompt as a unit, units of like length as a micro-batch.

Apart from the losses, so that an edit of one runs again what trains on it alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stages.config import Grpo

Row = dict[str, Any]
Unit = list[Row]  # responses to one prompt that go through the model together


def units_of(rows: Sequence[Row], settings: Grpo) -> list[Unit]:
    """Rows cut into units of equal size that divide both a group and a micro-batch. Rows of a group are adjacent."""
    size = math.gcd(settings.group_size, settings.micro_train_batch_size)
    units = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    if any(len({row["example_id"] for row in unit}) > 1 for unit in units):
        units = [[row] for row in rows]
    return units


def micro_batches(units: list[Unit], rows_each: int) -> list[list[Unit]]:
    """Units in micro-batches of at most `rows_each` rows; alike lengths go together, to keep padding low."""
    units = sorted(units, key=lambda unit: max(row["num_response_tokens"] for row in unit))
    each = max(1, rows_each // len(units[0])) if units else 1
    return [units[start : start + each] for start in range(0, len(units), each)]
