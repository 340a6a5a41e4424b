"""Files that survive: atomic folders, provenance, and a resumable state folder for long jobs.

A stage keeps its unfinished work in a state folder beside its outputs. The folder belongs to one specification (values
and code): state of another one is thrown away, never resumed. Every checkpoint is written under a temporary name and
renamed when complete, so a kill at any moment leaves the newest complete one to resume from.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "mpmath", "snakemake")


class StateError(RuntimeError):
    """The state folder cannot be used now. The message says why and what to do."""


def sha256(file: Path | str) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def digest(data: Any) -> str:
    """A short name for a JSON-able value: equal values, equal names."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def stamp(folder: Path) -> list[list[Any]]:
    """What tells these very weights from others that would lie in their place: path, size and time of each file."""
    facts = [(path, path.stat()) for path in sorted(Path(folder).glob("*.safetensors"))]
    return [[str(path), found.st_size, found.st_mtime_ns] for path, found in facts]


def provenance(spec: dict[str, Any]) -> dict[str, Any]:
    """What goes into the metadata of every output: the specification, its hash, code, versions, commit, Slurm job."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "spec": spec,
        "spec_hash": digest(spec),
        "code": spec.get("code"),
        "versions": versions,
        "commit": _commit(),
        "job": os.environ.get("SLURM_JOB_ID", ""),
    }


def _commit() -> str:
    """The git commit of the working folder, `-dirty` if files differ from it; `unknown` outside git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A name to write a file under; it appears as `path`, replacing what was there, when the block ends without an
    error: a reader sees all of it or nothing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        os.chmod(temporary, mode)  # whatever mode a library's own temporary file had
        _to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with new_file(path) as file:
        file.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill; it appears under `path`, replacing what was there, when the block ends without an error. Files
    in it get the mode that the umask (or the parent's access list) gives new ones, whichever library wrote them."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden(path)
    temporary.mkdir()
    mode = temporary.stat().st_mode & 0o666
    try:
        yield temporary
        for file in filter(Path.is_file, temporary.rglob("*")):
            if file.stat().st_nlink == 1:  # a second name of a file elsewhere has its mode from there
                os.chmod(file, mode)
            _to_disk(file)
        if path.exists():
            old = temporary.with_name(f"{temporary.name}.old")
            os.replace(path, old)
            os.replace(temporary, path)
            remove(old)
        else:
            os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _hidden(path: Path) -> Path:
    """The name to write `path` under until it is whole. Copies that killed processes left under such names are removed:
    those of this machine whose process is gone. Another machine's may be being written on a shared file system."""
    prefix = f".{path.name}.{_here()}."
    for left in path.parent.iterdir():
        if left.name.startswith(prefix):
            pid = left.name.removeprefix(prefix).split(".")[0]
            if pid == str(os.getpid()) or (pid.isdecimal() and not _alive(int(pid))):
                remove(left)
    return path.with_name(f"{prefix}{os.getpid()}")


def _here() -> str:
    """A name of the machine, or of the container in it, within which process ids mean one thing."""
    try:
        within = os.readlink("/proc/self/ns/pid")
    except OSError:  # no Linux
        within = ""
    return digest([platform.node(), within])[:8]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def remove(path: Path) -> None:
    """A file or a whole folder, if it is there; of a link, the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _to_disk(file: Path) -> None:
    """A name must not outlive a power cut that its content does not."""
    with open(file, "rb") as handle:
        os.fsync(handle.fileno())


def exit_on_sigterm() -> None:
    """Let SIGTERM (Slurm's pre-emption, `scancel`, Ctrl-C of the workflow) unwind the program with status 143."""

    def leave(*_: Any) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, leave)


class State:
    """The resumable state of one job: `with State(folder, spec) as state`.

    Checkpoints are folders `step_<n>`. `save(step)` yields an empty folder to fill and keeps it, atomically, as the
    newest one; older ones are then removed. `newest()` is the newest complete checkpoint, or None.
    """

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.key = digest(spec)

    def __enter__(self) -> State:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / "lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise StateError(
                f"{self.folder}: another process is running this job (a stage that outlived its workflow?); "
                "wait for it or stop it, then run again"
            ) from None
        key_file = self.folder / "key"
        if not key_file.is_file() or key_file.read_bytes() != self.key.encode():
            self.clear()
            write_text(key_file, self.key)
        for leftover in self.folder.glob(".*"):
            remove(leftover)
        return self

    def __exit__(self, *_: Any) -> None:
        self._lock.close()

    def clear(self) -> None:
        """Forget everything, the lock excepted."""
        for path in self.folder.iterdir():
            if path.name != "lock":
                remove(path)

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Complete checkpoints, oldest first. What a person put beside them under another name is none."""
        found = ((re.fullmatch(r"step_([0-9]{8,})", path.name), path) for path in self.folder.iterdir())
        return sorted((int(named[1]), path) for named, path in found if named and path.is_dir())

    def newest(self) -> tuple[int, Path] | None:
        return (self.checkpoints() or [None])[-1]

    @contextmanager
    def save(self, step: int) -> Iterator[Path]:
        older = self.checkpoints()
        with new_directory(self.folder / f"step_{step:08d}") as folder:
            yield folder
        for other, path in older:
            if other != step:
                shutil.rmtree(path)
