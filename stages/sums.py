"""SHA-256 of the files of a folder, kept in it as `sha256sum` writes them: what rots on a disk is told, never used."""

from __future__ import annotations

from pathlib import Path

from stages.records import DataError
from stages.store import sha256

NAME = "files.sha256"  # no name that a folder of somebody else would have


def seal(folder: Path) -> None:
    """Write the sums of all files that lie in the folder; `sha256sum -c files.sha256` there checks them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != NAME)
    (folder / NAME).write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files), encoding="utf-8")


def check(folder: Path, advice: str, required: bool = False) -> None:
    """Raise DataError naming a file that is missing or not as it was written, and giving `advice`. A folder without
    sums, somebody else's, is checked only where they are `required`."""
    sums = folder / NAME
    if not sums.exists() and not required:
        return
    try:
        lines = sums.read_bytes().decode("ascii").removesuffix("\n").split("\n")
        found = [(folder / name, wanted) for wanted, name in (line.split("  ", 1) for line in lines)]
    except (OSError, ValueError):
        raise DataError(f"{sums}: missing or damaged; {advice}") from None
    for file, wanted in found:
        if not file.is_file():
            raise DataError(f"{file}: missing, and {NAME} names it; {advice}")
        if sha256(file) != wanted:
            raise DataError(f"{file}: not as it was written, by its SHA-256 in {NAME}; {advice}")
