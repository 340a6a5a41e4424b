"""Rows of one or several files, JSON Lines or Parquet, as EXAMPLES rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages.records import DataError
from stages.tasks.jsonl import LFS_POINTER, Object, identify, read_objects, refuse_pointer

Convert = Callable[[Object, str], Object | None]


def examples(files: Sequence[Path], name: str, convert: Convert) -> list[Object]:
    """`convert(row, "file:number")` of every row, with an `example_id`; a row that it gives None for is left out.

    The id is the row's own, or `<name>-<number>` with rows numbered through all files. Raises DataError.
    """
    rows, seen = [], {}
    for position, (where, row) in enumerate(read(files), 1):
        example_id, key = identify(row, name, position, where)
        if example_id in seen:
            raise DataError(
                f"{where}: id {example_id!r} is that of {seen[example_id]} as well; make {key!r} unique, "
                "because results are told apart by it"
            )
        seen[example_id] = where
        converted = convert(row, where)
        if converted is not None:
            rows.append({"example_id": example_id, **converted})
    if not rows:
        told = "no examples in it" if not seen else f"none of its {len(seen)} rows can be used"
        raise DataError(f"{', '.join(map(str, files))}: {told}")
    return rows


def read(files: Sequence[Path]) -> Iterator[tuple[str, Object]]:
    """("file:number", row) of every row, numbered from 1 in each file; JSON Lines by its lines. Raises DataError."""
    for path in files:
        reader = _read_parquet if path.suffix == ".parquet" else read_objects
        for number, row in reader(path):
            yield f"{path}:{number}", row


def _read_parquet(path: Path) -> Iterator[tuple[int, Object]]:
    try:
        with open(path, "rb") as file:
            refuse_pointer(path, file.read(len(LFS_POINTER)))
        batches = pq.ParquetFile(path).iter_batches(batch_size=1024)
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; paths are relative to the folder the workflow runs in") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error!s:.120}); fetch it again") from None
