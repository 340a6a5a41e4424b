"""How a stage ends that cannot go on: one line and status 1 for what a person can mend, a traceback for the rest."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys

import pytest
from safetensors import SafetensorError

from stages import console
from stages.records import DataError

GOES_ON = ". The same command then goes on where this one ended"


@pytest.fixture
def told(monkeypatch, capsys):
    """What a stage prints that raises `error`, as one line."""
    monkeypatch.setattr(console, "exit_on_sigterm", lambda: None)
    monkeypatch.setattr(console, "CONSOLE", console.Console(width=400))

    def of(error: Exception) -> str:
        def stage() -> None:
            raise error

        with pytest.raises(SystemExit) as ended:
            console.run(stage)
        assert ended.value.code == 1
        return capsys.readouterr().out.strip()

    return of


def refusal(number: int, *where: str) -> OSError:
    return OSError(number, os.strerror(number), *where)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DataError("x.jsonl: empty"), "error: x.jsonl: empty"),
        (refusal(errno.ENOSPC, "a/b"), f"error: a/b: the disk is full; free some space{GOES_ON}"),
        (refusal(errno.ENOSPC), f"error: the disk is full; free some space{GOES_ON}"),
        (
            SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
            f"error: the disk is full; free some space{GOES_ON}",
        ),
        (
            refusal(errno.EROFS, "a"),
            f"error: a: the file system is read-only; write elsewhere, or mount it for writing{GOES_ON}",
        ),
        (
            refusal(errno.EACCES, "a"),
            f"error: a: permission denied; change the permissions, or name another place{GOES_ON}",
        ),
    ],
)
def test_what_a_person_can_mend_is_told_in_one_line(told, error, says):
    assert told(error) == says


@pytest.mark.parametrize("error", [refusal(errno.EBADF), ValueError("a fault of ours"), SafetensorError("header")])
def test_any_other_error_keeps_its_traceback(monkeypatch, error):
    monkeypatch.setattr(console, "exit_on_sigterm", lambda: None)

    def stage() -> None:
        raise error

    with pytest.raises(type(error)):
        console.run(stage)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (refusal(errno.EPERM, "a"), "error: a: not permitted"),
        (refusal(errno.EFBIG, "a"), r"error: a: the file would be larger"),
        (MemoryError(), "error: no memory is left"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "error: no memory"),
        (refusal(errno.EEXIST, "state"), "error: state: a file is there, where a folder should be"),
        (refusal(errno.EISDIR, "state/lock"), "error: state/lock: a folder, where a file should be"),
    ],
)
def test_limits_of_the_system_are_told_in_one_line(told, error, says):
    assert told(error).startswith(says)
    assert "\n" not in told(error)


def test_a_file_system_without_inodes_is_not_told_to_be_full(told, monkeypatch, tmp_path):
    whole = os.statvfs(tmp_path)
    none_left = type("Found", (), {"f_files": 100, "f_favail": 0})
    monkeypatch.setattr(os, "statvfs", lambda _: none_left)
    assert "can hold no more files" in told(refusal(errno.ENOSPC, str(tmp_path / "new" / "file")))
    monkeypatch.setattr(os, "statvfs", lambda _: whole)
    assert "the disk is full" in told(refusal(errno.ENOSPC, str(tmp_path / "file")))


HOSTILE = "a\x1b]52;c;ZWNobw==\x1b\\b\x1b[2J\u202ecod.exe\x00\x9b31m"


def test_no_text_commands_the_terminal(capsys, monkeypatch):
    import io

    from rich.table import Table

    file = io.StringIO()
    monkeypatch.setattr(console, "CONSOLE", console.Plain(file=file, width=400, force_terminal=True))
    console.say(HOSTILE)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    console.CONSOLE.print(table)
    with pytest.raises(SystemExit):
        console._end(f"example {HOSTILE}")
    written = file.getvalue()
    ours = re.sub(r"\x1b\[[0-9;]*m", "", written)  # Rich's own colours
    assert not any(c in ours for c in "\x1b\x00\x9b\u202e")
    assert "\x1b[2J" not in written
    assert "\x1b[31m" in written or "\x1b[1;31m" in written
    assert ours.count(r"\x1b]52;c;ZWNobw==\x1b\b\x1b[2J\u202ecod.exe\x00\x9b31m") >= 2


def test_a_log_keeps_what_an_earlier_attempt_or_another_process_writes(tmp_path):
    program = "from stages.console import run, say; run(lambda: say('hello'))"
    log = tmp_path / "a.log"
    for _ in range(2):
        with open(log, "a") as file:
            subprocess.run([sys.executable, "-c", program], stderr=file, check=True)
    first, blank, heading, second = log.read_text().splitlines()
    assert (first, blank, second) == ("hello", "", "hello")
    assert re.fullmatch(r"── \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, process \d+ ──", heading)
