"""Nothing computed is lost, and nothing half-written is ever taken for whole."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stages import store
from stages.store import State, StateError, digest, new_directory, write_json, write_text

SPEC = {"values": {"learning_rate": 1e-5}, "code": "a"}


def test_equal_specs_have_equal_digests_and_others_do_not():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    write_json(path, {"kept": True})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "half")
    assert json.loads(path.read_text()) == {"kept": True}
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_a_directory_replaces_the_old_one_only_when_complete(tmp_path):
    target = tmp_path / "model"
    with new_directory(target) as folder:
        (folder / "weights").write_text("first")
    with pytest.raises(RuntimeError), new_directory(target) as folder:
        (folder / "weights").write_text("second, broken")
        raise RuntimeError
    assert (target / "weights").read_text() == "first"
    with new_directory(target) as folder:
        (folder / "other").write_text("third")
    assert [p.name for p in target.iterdir()] == ["other"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_checkpoints_newest_first_and_older_ones_go(tmp_path):
    with State(tmp_path / "state", SPEC) as state:
        assert state.newest() is None
        for step in (5, 10):
            with state.save(step) as folder:
                (folder / "weights").write_text(str(step))
        step, folder = state.newest()
        assert (step, (folder / "weights").read_text()) == (10, "10")
        assert len(state.checkpoints()) == 1


def test_a_failed_save_leaves_the_last_complete_checkpoint(tmp_path):
    with State(tmp_path / "state", SPEC) as state:
        with state.save(5) as folder:
            (folder / "weights").write_text("5")
        with pytest.raises(OSError, match="disk"), state.save(10) as folder:
            (folder / "weights").write_text("half")
            raise OSError("disk")
        assert state.newest()[0] == 5


def test_state_of_another_spec_is_cleared(tmp_path):
    with State(tmp_path / "state", SPEC) as state, state.save(5) as folder:
        (folder / "weights").write_text("5")
    with State(tmp_path / "state", SPEC) as state:
        assert state.newest()[0] == 5
    with State(tmp_path / "state", {**SPEC, "code": "b"}) as state:
        assert state.newest() is None


def test_one_process_at_a_time(tmp_path):
    with State(tmp_path / "state", SPEC):
        with pytest.raises(StateError, match="another process"), State(tmp_path / "state", SPEC):
            pass
    with State(tmp_path / "state", SPEC):
        pass


SAVER = """
import sys
from pathlib import Path
from stages.store import State
with State(Path(sys.argv[1]), {"spec": 1}) as state:
    for step in range(1, 10_000):
        with state.save(step) as folder:
            for name in range(20):
                (folder / str(name)).write_text(str(step) * 1000)
        print(step, flush=True)
"""


@pytest.mark.parametrize("delay", range(6))
def test_kill_in_the_middle_of_a_save_leaves_a_complete_checkpoint(tmp_path, delay):
    """kill -9 at arbitrary moments: the newest checkpoint is whole, and is the last one reported or a later one."""
    state = tmp_path / "state"
    process = subprocess.Popen([sys.executable, "-c", SAVER, state], stdout=subprocess.PIPE, text=True)
    for _ in range(3 + 2 * delay):
        reported = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    rest = [int(line) for line in process.stdout.read().split()]
    reported = max([reported, *rest])
    process.wait()
    with State(state, {"spec": 1}) as held:
        step, folder = held.newest()
        assert step >= reported
        assert {path.read_text() for path in folder.iterdir()} == {str(step) * 1000}
        assert len(list(folder.iterdir())) == 20
        assert not [path for path in state.iterdir() if path.name.startswith(".")]


def test_provenance_names_versions_commit_and_spec():
    facts = store.provenance(SPEC)
    assert facts["spec"] == SPEC
    assert facts["spec_hash"] == digest(SPEC)
    assert facts["versions"]["pyarrow"][0].isdigit()
    assert facts["commit"]


def test_sigterm_unwinds_with_its_own_status(tmp_path):
    code = (
        "from stages.store import exit_on_sigterm; import time, pathlib, sys\n"
        "exit_on_sigterm()\n"
        "try:\n    print('ready', flush=True); time.sleep(60)\n"
        "finally:\n    pathlib.Path(sys.argv[1]).write_text('unwound')\n"
    )
    path = tmp_path / "mark"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, cwd=Path.cwd())
    process.stdout.readline()
    process.terminate()
    assert process.wait() == 143
    assert path.read_text() == "unwound"
