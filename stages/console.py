"""What a person sees while a stage runs: progress with rate and ETA, quiet lines in a log file, readable errors."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

from stages.plain import plain
from stages.records import DataError
from stages.store import StateError, exit_on_sigterm
from stages.strict import ConfigError

REFUSALS = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EFBIG: "the file would be larger than is allowed; raise the limit (ulimit -f), or write elsewhere",
    errno.EPERM: "not permitted, as of a file or folder that was made immutable (lsattr); allow it, or write elsewhere",
    errno.ENOMEM: "no memory is left; give the job more, or lower its batch sizes",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.EISDIR: "a folder, where a file should be; move it away",
    errno.EEXIST: "a file is there, where a folder should be; move it away",
    errno.ENOTDIR: "a file, where a folder should be; move it away",
    errno.EIO: "the disk cannot be read or written; check it",
    errno.EDQUOT: "your quota of the disk is used up; free some space",
    errno.EROFS: "the file system is read-only; write elsewhere, or mount it for writing",
    errno.EACCES: "permission denied; change the permissions, or name another place",
}
NO_INODES = "the file system can hold no more files, however small; delete some"


class Plain(Console):
    """A console on which no text commands the terminal: here, once for all that is printed, control, invisible and
    direction-changing characters become escapes. Rich's own colours are not text."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


CONSOLE = Plain(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


@contextmanager
def progress(title: str, total: int, done: int = 0):
    """Yield `advance(n=1, note="")`. A terminal gets a bar; a log file gets about twenty lines."""
    if not sys.stderr.isatty():
        yield _lines(title, total, done)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=CONSOLE) as bar:
        task = bar.add_task(title, total=total, completed=done, note="")
        yield lambda n=1, note="": bar.update(task, advance=n, note=note)


def _lines(title: str, total: int, done: int) -> Callable[..., None]:
    import time

    began, first, every = time.monotonic(), done, max(1, total // 20)
    at = done

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal at
        before, at = at, at + n
        if at // every > before // every or at >= total:
            rate = (at - first) / max(1e-9, time.monotonic() - began)
            eta = (total - at) / rate
            CONSOLE.print(f"{title} {at}/{total}  {rate:.2f}/s  eta {eta:.0f} s  {note}".rstrip(), markup=False)

    return advance


def say(text: str) -> None:
    CONSOLE.print(text, markup=False)


def run(app: Callable[[], Any]) -> None:
    """Run a stage's command line: SIGTERM unwinds it, an expected error is one readable message and status 1."""
    exit_on_sigterm()
    _head_attempt()
    try:
        app()
    except (ConfigError, DataError, StateError) as error:
        _end(str(error))
    except Exception as error:
        if (told := _refused(error)) is None:
            raise
        _end(f"{told}. The same command then goes on where this one ended")


def _head_attempt() -> None:
    """In a log that holds an earlier attempt, which another process may even be writing: where this one begins."""
    if not sys.stderr.isatty() and stat.S_ISREG(os.fstat(2).st_mode) and os.fstat(2).st_size > 0:
        CONSOLE.print(f"\n── {datetime.now():%Y-%m-%d %H:%M:%S}, process {os.getpid()} ──", markup=False)


def _refused(error: Exception) -> str | None:
    """What the system did not allow, of an OSError or by the text of what Rust's writers raise; else None."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return REFUSALS[errno.ENOMEM]
    number = getattr(error, "errno", None)
    if number is None and (named := re.search(r"\(os error (\d+)\)", str(error))):
        number = int(named[1])
    where = getattr(error, "filename", None)
    if number not in REFUSALS:
        return None
    told = NO_INODES if number == errno.ENOSPC and _no_inodes(where) else REFUSALS[number]
    return f"{where}: {told}" if where else told


def _no_inodes(where: Any) -> bool:
    """Whether it is the number of files that the file system of `where` (or, unnamed, of here) has no more of."""
    for folder in Path(where or ".").absolute().parents:
        if folder.exists():
            found = os.statvfs(folder)
            return found.f_files > 0 and found.f_favail == 0
    return False


def _end(message: str) -> NoReturn:
    CONSOLE.print(f"error: {message}", style="bold red", markup=False)
    sys.exit(1)
