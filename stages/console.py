"""What a person sees while a stage runs: progress with rate and ETA, quiet lines in a log file, readable errors."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
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

from stages.records import DataError
from stages.store import StateError, exit_on_sigterm
from stages.strict import ConfigError

REFUSALS = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "your quota of the disk is used up; free some space",
    errno.EROFS: "the file system is read-only; write elsewhere, or mount it for writing",
    errno.EACCES: "permission denied; change the permissions, or name another place",
}
CONSOLE = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


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
    try:
        app()
    except (ConfigError, DataError, StateError) as error:
        _end(str(error))
    except Exception as error:
        if (told := _refused(error)) is None:
            raise
        _end(f"{told}. The same command then goes on where this one ended")


def _refused(error: Exception) -> str | None:
    """What the system did not allow, of an OSError or by the text of what Rust's writers raise; else None."""
    number = getattr(error, "errno", None)
    if number is None and (named := re.search(r"\(os error (\d+)\)", str(error))):
        number = int(named[1])
    where = getattr(error, "filename", None)
    if number not in REFUSALS:
        return None
    return f"{where}: {REFUSALS[number]}" if where else REFUSALS[number]


def _end(message: str) -> NoReturn:
    CONSOLE.print(f"error: {message}", style="bold red", markup=False)
    sys.exit(1)
