"""How a stage ends that cannot go on: one line and status 1 for what a person can mend, a traceback for the rest."""

from __future__ import annotations

import errno
import os

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
