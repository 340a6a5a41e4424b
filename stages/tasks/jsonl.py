"""JSON-lines files as EXAMPLES rows: the user's own file, and the reader and checks that every such dataset shares.

A file that cannot be used is refused before anything is trained on it, with its name, the line, and what to do.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stages.records import DataError
from stages.strict import nearest

Object = dict[str, Any]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ID_KEYS = ("unique_id", "id")


def load(path: Path, name: str, question: str, answer: str, response: str | None = None) -> list[Object]:
    """EXAMPLES rows of a user's file; `question`, `answer` and `response` name the fields to read.

    An answer may be a JSON number; everything else is a non-empty string. A response is taken as it is: the policy
    will learn to write it straight after the prompt. Raises DataError.
    """

    def convert(row: Object, where: str) -> Object:
        return {
            "question": text(row, question, where),
            "ground_truth": text(row, answer, where, numbers=True),
            "response": None if response is None else text(row, response, where),
        }

    return examples(path, name, convert)


def examples(path: Path, name: str, convert: Callable[[Object, str], Object]) -> list[Object]:
    """`convert(row, "file:line")` of every row, with an `example_id`: the row's own id or `<name>-<line number>`."""
    rows, lines = [], {}
    for number, row in read_objects(path):
        where = f"{path}:{number}"
        example_id, key = identify(row, name, number, where)
        if example_id in lines:
            raise DataError(
                f"{where}: id {example_id!r} is that of line {lines[example_id]} as well; make {key!r} "
                "unique, because results are told apart by it"
            )
        lines[example_id] = number
        rows.append({"example_id": example_id, **convert(row, where)})
    if not rows:
        raise DataError(f"{path}: no examples in it; it must hold one JSON object per line")
    return rows


def identify(row: Object, name: str, number: int, where: str) -> tuple[str, str]:
    """The row's own id or `<name>-<number>`, and the key that would have to change if another row has it too."""
    own = next((key for key in ID_KEYS if row.get(key) is not None), None)
    example_id = f"{name}-{number:06d}" if own is None else text(row, own, where, numbers=True)
    return example_id, own or ID_KEYS[0]


def text(row: Object, key: str, where: str, numbers: bool = False) -> str:
    """The string `row[key]`, as it is; raises DataError where it is missing, blank or of another type."""
    if key not in row:
        raise DataError(f"{where}: field {key!r} is missing; {nearest(key, list(row))}")
    value = row[key]
    if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        kinds = "a string or a number" if numbers else "a string"
        raise DataError(f"{where}: field {key!r} must be {kinds} (got {json.dumps(value):.80})")
    if not value.strip():
        raise DataError(f"{where}: field {key!r} is empty; fill it or remove the line")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(f"{where}: field {key!r} holds half a surrogate pair, which is not text; repair the escape")
    return value


# ---------------------------------------------------------------- reading


def read_objects(path: Path) -> Iterator[tuple[int, Object]]:
    """(line number from 1, object) of every line that is not blank; `.gz` is unpacked. Raises DataError."""
    for number, line in enumerate(content(Path(path)).split(b"\n"), 1):
        if line.strip():
            yield number, _object(line, f"{path}:{number}")


def content(path: Path) -> bytes:
    """The bytes of a file, `.gz` unpacked, without a byte-order mark. Raises DataError naming it."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; paths are relative to the folder the workflow runs in") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    refuse_pointer(path, found)
    if path.suffix == ".gz":
        try:
            found = gzip.decompress(found)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path}: not a complete gzip file ({error}); fetch it again or rename it") from None
    return found.removeprefix(BYTE_ORDER_MARK)


def refuse_pointer(path: Path, content: bytes) -> None:
    """Raise DataError where a file (or its beginning) is what Git leaves in place of data kept in LFS."""
    if content.startswith(LFS_POINTER):
        raise DataError(f"{path}: holds a Git LFS pointer, not the data; run `git lfs pull` where it came from")


def _object(line: bytes, where: str) -> Object:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 (byte {error.start + 1} of the line); save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON ({error.msg}, column {error.colno}); one object per line") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not usable JSON ({error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: not a JSON object but {line.decode('utf-8'):.40}; one object per line")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")
