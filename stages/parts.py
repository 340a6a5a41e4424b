"""Rows of a long job, written in parts as it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import console, records

Row = dict[str, Any]


class Parts:
    """Rows of a long job, written in parts as it goes, so that checkpoints stay small."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self.fresh: list[Row] = []

    def flush(self, step: int) -> None:
        """Write what came since the last flush as the part that ends at `step`."""
        if self.fresh:
            records.write_table(self.folder / f"{step:08d}.parquet", records.table(self.fresh, self.schema))
            self.fresh = []

    def rewind(self, step: int) -> None:
        """Forget what came after `step`: the checkpoint that would have followed was never completed."""
        for path in self.folder.glob("*.parquet"):
            if int(path.stem) > step:
                path.unlink()

    def last(self) -> int:
        """Where the newest part ends; 0 without parts."""
        return max((int(path.stem) for path in self.folder.glob("*.parquet")), default=0)

    def fill(self, title: str, items: Sequence[Any], size: int, rows_of: Callable[[Sequence[Any]], list[Row]]) -> None:
        """Add what `rows_of` makes of all `items`, so many at a time; what an earlier attempt has made is kept."""
        done = self.last()
        with console.progress(title, len(items), done=done) as advance:
            for start in range(done, len(items), size):
                chunk = items[start : start + size]
                self.fresh += rows_of(chunk)
                self.flush(start + len(chunk))
                advance(len(chunk))

    def all(self) -> pa.Table:
        parts = [records.read_table(path, self.schema) for path in sorted(self.folder.glob("*.parquet"))]
        return pa.concat_tables([*parts, records.table(self.fresh, self.schema)])
