"""Jobs run the code that was planned, whatever is edited meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from workflow.snapshot import KEEP_DAYS, snapshot


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LADDER_CODE", "")  # and undo what the tests below set
    folder = tmp_path / "stages"
    for name in ("__init__.py", "tasks/prompts/plain.prompt", "__pycache__/x.pyc", ".draft.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def take(package: Path) -> Path:
    """A snapshot as a new planner takes it."""
    os.environ.pop("LADDER_CODE", None)
    return snapshot(package, package.parent / "store")


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_sources_and_data_files_are_frozen(package: Path):
    frozen = take(package)
    assert frozen.is_absolute()
    assert names(frozen) == {"stages/__init__.py", "stages/tasks/prompts/plain.prompt"}
    (package / "__init__.py").write_text("edited")
    assert (frozen / "stages/__init__.py").read_text() == "__init__.py"
    assert take(package) != frozen


def test_same_code_same_folder(package: Path):
    first = take(package)
    (package / "__pycache__/y.pyc").write_text("")
    assert take(package) == first


def test_a_file_renamed_is_other_code(package: Path):
    first = take(package)
    (package / "__init__.py").rename(package / "other.py")
    assert take(package) != first


def test_processes_of_single_jobs_keep_the_planners_choice(package: Path):
    first = take(package)
    (package / "__init__.py").write_text("edited")
    assert snapshot(package, package.parent / "store") == first


def test_snapshots_unused_for_long_are_removed(package: Path):
    old, recent = take(package), None
    long_ago = time.time() - (KEEP_DAYS + 1) * 86400
    (package / "__init__.py").write_text("recent")
    recent = take(package)
    (package.parent / "store/keep.txt").write_text("not a snapshot")
    for path in (old, package.parent / "store/keep.txt"):
        os.utime(path, (long_ago, long_ago))
    (package / "__init__.py").write_text("new")
    new = take(package)
    assert not old.exists()
    assert recent.exists()
    assert new.exists()
    assert (package.parent / "store/keep.txt").exists()


def test_use_keeps_a_snapshot_young(package: Path):
    frozen = take(package)
    long_ago = time.time() - (KEEP_DAYS + 1) * 86400
    os.utime(frozen, (long_ago, long_ago))
    assert take(package) == frozen
    assert frozen.exists()
