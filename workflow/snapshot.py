"""Freeze the stage code when jobs are planned: one that waits in a queue for hours runs what was planned."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

KEEP_DAYS = 14  # longer than any job waits and runs
_VARIABLE = "LADDER_CODE"  # hands the planner's choice to the processes that Snakemake starts for single jobs


def snapshot(package: Path, store: Path = Path(".snakemake/code")) -> Path:
    """Copy `package` into a folder of `store` named after its content; return that folder, for PYTHONPATH."""
    if frozen := os.environ.get(_VARIABLE):
        return Path(frozen)
    files = _files(package)
    digest = hashlib.sha256()
    contents = {}
    for file in files:
        contents[file] = file.read_bytes()
        digest.update(f"{file.relative_to(package)}\0{len(contents[file])}\0".encode() + contents[file])
    target = (store / digest.hexdigest()[:16]).resolve()
    if not target.exists():
        _fill(target, {Path(package.name) / file.relative_to(package): data for file, data in contents.items()})
    os.utime(target)  # its age is the time since its last use
    _remove_old(store)
    os.environ[_VARIABLE] = str(target)
    return target


def _files(package: Path) -> list[Path]:
    """Sources and data files alike (prompts, templates); neither byte code nor an editor's hidden files."""
    inside = (path for path in package.rglob("*") if path.is_file())
    hidden = (".", "__pycache__")
    return sorted(path for path in inside if not any(p.startswith(hidden) for p in path.relative_to(package).parts))


def _fill(target: Path, contents: dict[Path, bytes]) -> None:
    """Write the files under a temporary name, then rename: two planners at once each find a whole folder."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    for path, data in contents.items():
        (temporary / path).parent.mkdir(parents=True, exist_ok=True)
        (temporary / path).write_bytes(data)
    try:
        os.rename(temporary, target)
    except OSError:
        shutil.rmtree(temporary)
        if not target.exists():
            raise


def _remove_old(store: Path) -> None:
    oldest = time.time() - KEEP_DAYS * 86400
    for folder in store.iterdir():
        if re.fullmatch(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.\d+", folder.name) and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
