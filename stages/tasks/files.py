"""Rows of one or several files, JSON Lines, a JSON array, CSV or Parquet, as EXAMPLES rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages.records import DataError
from stages.tasks.jsonl import LFS_POINTER, Object, content, identify, read_objects, refuse_pointer

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
    """("file:number", row) of every row. Rows are numbered from 1 in each file; JSON Lines and CSV by their lines.
    Raises DataError."""
    for path in files:
        for number, row in READERS.get(path.suffix, read_objects)(path):
            yield f"{path}:{number}", row


def read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(number of its last line, cells) of every row of a CSV file, which may be gzipped. Raises DataError."""
    try:
        rows = csv.reader(io.StringIO(content(path).decode("utf-8"), newline=""), strict=True)
        for cells in rows:
            if cells:
                yield rows.line_num, cells
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start + 1}); save the file as UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: not CSV ({error}); mend the quotes of that line") from None


def _read_csv(path: Path) -> Iterator[tuple[int, Object]]:
    rows = read_cells(path)
    _, header = next(rows, (0, []))
    for number, cells in rows:
        if len(cells) != len(header):
            raise DataError(f"{path}:{number}: {len(cells)} cells under {len(header)} names in the first line")
        yield number, dict(zip(header, cells, strict=True))


def _read_json(path: Path) -> Iterator[tuple[int, Object]]:
    """One array of objects, or JSON Lines by another name."""
    found = content(path)
    if not found.lstrip().startswith(b"["):
        yield from read_objects(path)
        return
    try:
        rows = json.loads(found.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: begins like a JSON array and is none ({error!s:.120}); fetch it again") from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(
                f"{path}:{number}: not a JSON object but {json.dumps(row):.40}; an array of objects is read"
            )
        yield number, row


def _read_parquet(path: Path) -> Iterator[tuple[int, Object]]:
    try:
        with open(path, "rb") as file:
            refuse_pointer(path, file.read(len(LFS_POINTER)))
        batches = pq.ParquetFile(path, page_checksum_verification=True).iter_batches(batch_size=1024)
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; paths are relative to the folder the workflow runs in") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error!s:.120}); fetch it again") from None


READERS: dict[str, Callable[[Path], Iterator[tuple[int, Object]]]] = {
    ".parquet": _read_parquet,
    ".json": _read_json,
    ".csv": _read_csv,
}
