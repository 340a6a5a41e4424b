"""Jobs run the workflow, code and config that were planned, whatever is edited meanwhile."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from workflow.snapshot import KEEP_DAYS, freeze_code, freeze_config

FROZEN = {"Snakefile", "workflow/rules/a.smk", "stages/__init__.py", "stages/tasks/prompts/plain.prompt"}
LEFT_OUT = {"stages/__pycache__/x.pyc", "stages/.draft.py", "config.yaml"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FROZEN | LEFT_OUT:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(name)
    return tmp_path / "tree"


def take(root: Path) -> Path:
    return freeze_code(root, root.parent / "store")


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_rules_sources_and_data_files_are_frozen(root: Path):
    frozen = take(root)
    assert frozen.is_absolute()
    assert names(frozen) == FROZEN
    (root / "stages/__init__.py").write_text("edited")
    assert (frozen / "stages/__init__.py").read_text() == "stages/__init__.py"
    assert take(root) != frozen


def test_same_code_same_folder(root: Path):
    first = take(root)
    (root / "stages/__pycache__/y.pyc").write_text("")
    assert take(root) == first


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_any_edit_is_another_folder(root: Path, name: str):
    first = take(root)
    (root / name).write_text("edited")
    assert take(root) != first


def test_a_file_renamed_is_other_code(root: Path):
    first = take(root)
    (root / "stages/__init__.py").rename(root / "stages/other.py")
    assert take(root) != first


def test_a_config_is_frozen_whole(tmp_path: Path):
    config = {"preset": "x", "experiments": {"b": {"fixed": {"learning_rate": 1.0e-5}}, "a": {}}}
    frozen = freeze_config(config, tmp_path)
    assert json.loads(frozen.read_text()) == config
    assert list(json.loads(frozen.read_text())["experiments"]) == ["b", "a"]  # their order is that of the ladder
    assert freeze_config(config, tmp_path) == frozen
    assert freeze_config(config | {"preset": "y"}, tmp_path) != frozen


def test_snapshots_unused_for_long_are_removed(root: Path):
    store = root.parent / "store"
    old, old_config, recent = take(root), freeze_config({"preset": "old"}, store), None
    long_ago = time.time() - (KEEP_DAYS + 1) * 86400
    (root / "stages/__init__.py").write_text("recent")
    recent = take(root)
    (store / "keep.txt").write_text("not a snapshot")
    for path in (old, old_config, store / "keep.txt"):
        os.utime(path, (long_ago, long_ago))
    (root / "stages/__init__.py").write_text("new")
    new = take(root)
    assert not old.exists()
    assert not old_config.exists()
    assert recent.exists()
    assert new.exists()
    assert (store / "keep.txt").exists()


def test_use_keeps_a_snapshot_young(root: Path):
    frozen, config = take(root), freeze_config({}, root.parent / "store")
    long_ago = time.time() - (KEEP_DAYS + 1) * 86400
    for path in (frozen, config):
        os.utime(path, (long_ago, long_ago))
    freeze_config({}, root.parent / "store")
    assert take(root) == frozen
    assert frozen.exists()
    assert config.exists()
