"""The second copy of the metrics: what it is told, and that nothing wrong with it stops a run."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from stages.wandb_log import open_log

ROWS = [{"kind": "train", "step": 1, "loss": 0.5, "reward": None}, {"kind": "validation", "step": 1, "reward": 0.25}]


@pytest.fixture
def stand_in(monkeypatch):
    """Weights & Biases' client, as far as it is called; `calls` is what it was told."""
    calls = []
    run = SimpleNamespace(log=calls.append, define_metric=lambda name, step_metric: calls.append((name, step_metric)))
    monkeypatch.setenv("WANDB_PROJECT", "ladder")
    module = SimpleNamespace(init=lambda **told: calls.append(told) or run, calls=calls, run=run)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_nothing_is_sent_unless_asked_for(stand_in, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_PROJECT")
    open_log("grpo_lr_sweep/seed=0", tmp_path, {})(ROWS)
    assert stand_in.calls == []


def test_rows_arrive_under_their_kind_without_empty_columns(stand_in, tmp_path):
    open_log("grpo_lr_sweep/seed=0", tmp_path, {"learning_rate": 1e-5})(ROWS)
    told, *metrics, first, second = stand_in.calls
    assert (told["name"], told["group"]) == ("grpo_lr_sweep/seed=0", "grpo_lr_sweep")
    assert told["config"] == {"learning_rate": 1e-5}
    assert metrics == [("train/*", "train/step"), ("validation/*", "validation/step")]
    assert first == {"train/step": 1, "train/loss": 0.5}
    assert second == {"validation/step": 1, "validation/reward": 0.25}


def test_an_interrupted_run_goes_on_under_its_id_and_another_gets_its_own(stand_in, tmp_path):
    for folder in ("a", "a", "b"):
        open_log("run", tmp_path / folder, {})
    first, again, other = (call["id"] for call in stand_in.calls if isinstance(call, dict))
    assert first == again != other


@pytest.mark.parametrize("fault", ["init", "log", "not installed"])
def test_a_fault_is_said_once_and_stops_nothing(stand_in, monkeypatch, tmp_path, capsys, fault):
    def fail(*_, **__):
        raise ConnectionError("no network")

    if fault == "init":
        stand_in.init = fail
    elif fault == "log":
        stand_in.run.log = fail
    else:
        monkeypatch.setitem(sys.modules, "wandb", None)
    log = open_log("run", tmp_path, {})
    log(ROWS)
    log(ROWS)
    said = capsys.readouterr().err
    assert said.count("The run goes on without it") == 1
    assert ("ModuleNotFoundError" if fault == "not installed" else "ConnectionError: no network") in said
