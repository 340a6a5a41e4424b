"""Rows of one or several files, JSON Lines, a JSON array, CSV, TSV or Parquet, gzipped or not, as rows of a dataset.

What a file holds is told by its content, and by its name only where content cannot tell: CSV and TSV.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.origins import MAX_BYTES, MAX_LEFT_OUT
from stages.records import DataError
from stages.tasks.rows import BadRow, Object, identify, refuse_rendered

Convert = Callable[[Object, str], Object | None]
Numbered = Iterator[tuple[int, Object]]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
UNREAD = {  # how files begin that are not read, and what each is
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"PK\x03\x04": "packed by zip (or a spreadsheet)",
    b"BZh": "packed by bzip2",
    b"\xfd7zXZ\x00": "packed by xz",
    b"7z\xbc\xaf\x27\x1c": "packed by 7z",
    b"ARROW1": "an Arrow file",
    b"\xff\xff\xff\xff": "an Arrow file",
    b"SQLite format 3": "a database of SQLite",
}
DELIMITERS = {".csv": ",", ".tsv": "\t"}
csv.field_size_limit(2**31 - 1)  # a worked solution may be longer than the default of 131,072 characters


@dataclass
class Reading:
    """How much of the files may be unusable (a share of the rows), how much they may unpack to (bytes), and, filled by
    `examples`, how many rows were left out, by reason."""

    max_left_out: float = MAX_LEFT_OUT
    max_bytes: int = MAX_BYTES
    left_out: Counter[str] = field(default_factory=Counter)
    first: str = ""  # what was wrong with the first row that was left out


def examples(files: Sequence[Path], name: str, convert: Convert, reading: Reading | None = None) -> list[Object]:
    """`convert(row, "file:number")` of every row, with an `example_id`; a row that it gives None for is not wanted.

    The id is the row's own, or `<name>-<number>` with rows numbered through all files. A row that raises BadRow is left
    out and counted; DataError, naming the first of them, where more than `reading.max_left_out` of the rows do.
    """
    reading = reading or Reading()
    rows, seen, total, first = [], {}, 0, ""
    faults: Counter[str] = Counter()
    for total, (where, row) in enumerate(read(files, reading.max_bytes), 1):
        try:
            example_id, converted = _converted(row, name, total, where, convert, seen)
        except BadRow as error:
            faults[error.reason] += 1
            first = first or str(error)
            continue
        seen[example_id] = where
        if converted is not None:
            rows.append({"example_id": example_id, **converted})
    reading.left_out.update(faults)
    reading.first = reading.first or first
    if (bad := faults.total()) > reading.max_left_out * total:
        counts = f"{bad} of {total} rows cannot be used" + (f": {counted(faults)}" if bad > 1 else "")
        raise DataError(f"{first} ({counts}; max_left_out allows a share of {reading.max_left_out:g})")
    if not rows:
        told = f"none of its {total} rows can be used" if total else "no examples in it"
        raise DataError(f"{', '.join(map(str, files))}: {told}")
    return rows


def _converted(
    row: Object, name: str, number: int, where: str, convert: Convert, seen: dict[str, str]
) -> tuple[str, Object | None]:
    """(id, converted row); raises BadRow."""
    example_id, key = identify(row, name, number, where)
    if example_id in seen:
        rest = f": {example_id!r} is that of {seen[example_id]} as well; make {key!r} unique"
        raise BadRow(where, "its id is that of another row", f"{rest}, because results are told apart by it")
    converted = convert(row, where)
    if converted is not None:
        refuse_rendered(converted.get("question") or converted.get("prompt") or "", where)
    return example_id, converted


def counted(faults: Counter[str]) -> str:
    """`10 field 'answer' is empty, 2 field 'id' is missing`, the most frequent first."""
    return ", ".join(f"{count} {reason}" for reason, count in faults.most_common())


# ---------------------------------------------------------------- reading


def read(files: Sequence[Path], max_bytes: int = MAX_BYTES) -> Iterator[tuple[str, Object]]:
    """("file:number", row) of every row. Rows are numbered from 1 in each file; JSON Lines and CSV by their lines.
    Raises DataError, also where a file unpacks to more than `max_bytes`."""
    for path in map(Path, files):
        for number, row in _rows(path, max_bytes):
            yield f"{path}:{number}", row


def _rows(path: Path, max_bytes: int) -> Numbered:
    if _begins(path).startswith(PARQUET) or path.suffix == ".parquet":
        return _read_parquet(path, max_bytes)
    found = content(path, max_bytes)
    begins = found[:4096].lstrip()
    if begins.startswith(b"["):
        return _read_array(path, found)
    delimiter = DELIMITERS.get(Path(path.name.removesuffix(".gz")).suffix)
    if delimiter is None or begins.startswith(b"{"):
        return read_objects(path, found)
    return _read_table(path, found, delimiter)


def _begins(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            found = file.read(len(LFS_POINTER))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; paths are relative to the folder the workflow runs in") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if found.startswith(LFS_POINTER):
        raise DataError(f"{path}: holds a Git LFS pointer, not the data; run `git lfs pull` where it came from")
    _refuse_unread(path, found)
    return found


def _refuse_unread(path: Path, begins: bytes) -> None:
    told = next((told for start, told in UNREAD.items() if begins.startswith(start)), None)
    if told is not None:
        raise DataError(f"{path}: {told}, which is not read; make it JSON Lines, CSV or Parquet, or pack it with gzip")


def content(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file, gzip unpacked, without a byte-order mark. Raises DataError naming it."""
    packed = _begins(path).startswith(GZIP)
    if path.suffix == ".gz" and not packed:
        raise DataError(f"{path}: not a complete gzip file (it does not begin as one); fetch it again or rename it")
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            found = file.read(max_bytes + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a complete gzip file ({error}); fetch it again or rename it") from None
    if len(found) > max_bytes:
        raise too_large(path, max_bytes)
    if packed:
        _refuse_unread(path, found)
        if found.startswith((PARQUET, GZIP)):
            raise DataError(f"{path}: what gzip packs in it is packed itself; unpack it once (gunzip)")
    return found.removeprefix(BYTE_ORDER_MARK)


def too_large(path: Path, max_bytes: int) -> DataError:
    return DataError(f"{path}: unpacks to more than max_bytes ({max_bytes}); raise it if the file is what it should be")


def read_objects(path: Path, found: bytes | None = None) -> Numbered:
    """(line number from 1, object) of every line of JSON Lines that is not blank. Raises DataError."""
    for number, line in enumerate((content(path) if found is None else found).split(b"\n"), 1):
        if line.strip():
            value = _json(line, f"{path}:{number}", "line")
            if not isinstance(value, dict):
                raise DataError(f"{path}:{number}: not a JSON object but {line.decode():.40}; one object per line")
            yield number, value


def _read_array(path: Path, found: bytes) -> Numbered:
    """(number, object) of an array of objects. Raises DataError."""
    for number, row in enumerate(_json(found, str(path), "file"), 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: not a JSON object but {json.dumps(row):.40}; objects are read")
        yield number, row


def _json(found: bytes, where: str, what: str) -> Any:
    """Numbers of any size and NaN are read; `text` refuses those that no answer can be. A key that is there twice is
    refused: one of its values would be lost."""
    try:
        return json.loads(found.decode("utf-8"), object_pairs_hook=_no_key_twice)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 (byte {error.start + 1} of the {what}); save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if what == "line" else f"line {error.lineno}, column {error.colno}"
        rest = "one object per line" if what == "line" else "it begins like a JSON array; fetch it again"
        raise DataError(f"{where}: not JSON ({error.msg}, {place}); {rest}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not usable JSON ({error!s:.120})") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"key {twice!r} is there twice in one object")
    return found


def read_cells(path: Path, found: bytes | None = None, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """(number of its last line, cells) of every row of a CSV file, which may be gzipped. Raises DataError."""
    found = content(path) if found is None else found
    try:
        rows = csv.reader(io.StringIO(found.decode("utf-8"), newline=""), strict=True, delimiter=delimiter)
        for cells in rows:
            if cells:
                yield rows.line_num, cells
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start + 1}); save the file as UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: not CSV ({error}); mend the quotes of that line") from None


def _read_table(path: Path, found: bytes, delimiter: str) -> Numbered:
    rows = read_cells(path, found, delimiter)
    _, header = next(rows, (0, []))
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        raise DataError(f"{path}:1: two columns are named {twice[0]!r}; one of them would be lost, rename it")
    for number, cells in rows:
        if len(cells) != len(header):
            raise DataError(f"{path}:{number}: {len(cells)} cells under {len(header)} names in the first line")
        yield number, dict(zip(header, cells, strict=True))


def _read_parquet(path: Path, max_bytes: int) -> Numbered:
    """Memory is that of a batch: what a small file unpacks to is counted while it is read. A cell that is written once
    and stands in every row may be as large as the row group is, so large row groups are read a few rows at a time."""
    unpacked = done = 0
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        if twice := [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]:
            raise DataError(f"{path}: two columns are named {twice[0]!r}; one of them would be lost, rename it")
        groups = [file.metadata.row_group(index).total_byte_size for index in range(file.metadata.num_row_groups)]
        at_once = min(256, max(1, max_bytes // max([1, *groups])))
        for batch in file.iter_batches(batch_size=at_once):
            unpacked += batch.nbytes
            if unpacked > max_bytes:
                raise too_large(path, max_bytes)
            rows = _times_as_text(batch).to_pylist()
            yield from enumerate(rows, done + 1)
            done += len(rows)
    except DataError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error!s:.120}); fetch it again") from None
    except (OverflowError, ValueError) as error:
        raise DataError(f"{path}: row {done + 1} or one after it cannot be read ({error!s:.120})") from None


def _times_as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dates and times as ISO text, null where Arrow has none: Python's own cannot hold all that a column can.

    A duration has no such text, and Arrow's is a bare count without its unit: null as well.
    """
    for index, column in enumerate(batch.schema):
        if pa.types.is_temporal(column.type):
            told = pa.nulls(batch.num_rows, pa.string())
            if not pa.types.is_duration(column.type):
                told = batch.column(index).cast(pa.string())
                told = pc.if_else(pc.starts_with(told, "<"), None, told)  # "<value out of range: 4611686018427387904>"
            batch = batch.set_column(index, column.name, told)
    return batch
