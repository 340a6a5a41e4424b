"""Rows of a long job, written in parts as it goes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import console, records
from stages.store import remove, sha256, write_json

Row = dict[str, Any]
Manifest = dict[str, dict[str, Any]]


class Parts:
    """Rows of a long job, written in parts as it goes, so that checkpoints stay small.

    A part is named for where it ends. `manifest` says of each part how many rows it has and its SHA-256: what is not in
    it was written after the checkpoint that keeps it, and what is in it has to be there, as it was written.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self.fresh: list[Row] = []
        self.manifest: Manifest = {}

    def flush(self, step: int) -> None:
        """Write what came since the last flush as the part that ends at `step`."""
        if self.fresh:
            file = self.folder / f"{step:08d}.parquet"
            records.write_table(file, records.table(self.fresh, self.schema))
            self.manifest[file.name] = {"rows": len(self.fresh), "sha256": sha256(file)}
            self.fresh = []

    def restore(self, manifest: Manifest, advice: str = "") -> None:
        """Go on from the parts of a checkpoint, forgetting what came after it. Raises DataError naming a part that is
        missing or not as it was written, and giving `advice`."""
        for name, entry in manifest.items():
            if told := self._fault(name, entry):
                raise records.DataError(f"{self.folder / name}: {told}; {advice}")
        self.manifest = dict(manifest)
        for path in self.folder.glob("*.parquet"):
            if path.name not in manifest and re.fullmatch(r"[0-9]{8,}", path.stem):
                remove(path)
        for path in self.folder.glob(".*"):
            remove(path)

    def _fault(self, name: str, entry: Row) -> str:
        """What is wrong with a part, or "". Its bytes are compared, so that its rows need not be counted."""
        file = self.folder / name
        if not file.is_file():
            return "a part of what was done is missing"
        return "" if sha256(file) == entry["sha256"] else "not as it was written, by its SHA-256"

    def fill(
        self, title: str, items: Sequence[Any], size: int, rows_of: Callable[[Sequence[Any]], list[Row]], each: int = 1
    ) -> pa.Table:
        """All rows: those that `rows_of` makes of `items`, so many items at a time, `each` rows for an item. What an
        earlier attempt has made is kept, up to the first part that is not whole: the rest is made anew."""
        done = self._kept()
        with console.progress(title, len(items), done=done) as advance:
            for start in range(done, len(items), size):
                chunk = items[start : start + size]
                self.fresh += rows_of(chunk)
                self.flush(start + len(chunk))
                write_json(self.folder / "manifest.json", self.manifest)
                advance(len(chunk))
        return self.all(len(items) * each)

    def _kept(self) -> int:
        """How many items are done, by the parts that are whole; those after a fault are forgotten."""
        file, whole = self.folder / "manifest.json", {}
        try:
            listed = json.loads(file.read_text(encoding="utf-8"))
            for name in sorted(listed):
                if told := self._fault(name, listed[name]):
                    console.say(f"{self.folder / name}: {told}; it and what came after it are made anew")
                    break
                whole[name] = listed[name]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            console.say(f"{file}: damaged; what it would tell of is made anew")
            whole = {}
        self.restore(whole)
        return self.last()

    def last(self) -> int:
        """Where the newest part ends; 0 without parts."""
        return max((int(Path(name).stem) for name in self.manifest), default=0)

    def all(self, expected: int | None = None) -> pa.Table:
        """Every row. Raises DataError where there are not as many as were written, or as are `expected`."""
        parts = [records.read_table(self.folder / name, self.schema) for name in sorted(self.manifest)]
        found = pa.concat_tables([*parts, records.table(self.fresh, self.schema)])
        wanted = sum(entry["rows"] for entry in self.manifest.values()) + len(self.fresh)
        for count in (wanted, wanted if expected is None else expected):
            if found.num_rows != count:
                raise records.DataError(
                    f"{self.folder}: {found.num_rows} rows where there should be {count}; delete the state folder "
                    f"{self.folder.parent} and run again: all of it is then done anew"
                )
        return found
