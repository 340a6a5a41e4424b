"""The real client, offline: it writes what it would send."""

from __future__ import annotations

from stages.wandb_log import open_log


def test_a_run_is_recorded_offline(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_PROJECT", "ladder")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    log = open_log("grpo_lr_sweep/learning_rate=0.0003/seed=0", tmp_path / "state", {"learning_rate": 3e-4})
    log([{"kind": "train", "step": 1, "loss": 0.5}, {"kind": "validation", "step": 1, "reward": 0.25}])
    import wandb

    wandb.finish()
    assert "goes on without it" not in capsys.readouterr().err
    (record,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert (tmp_path / "state" / "wandb_id").read_text() in record.name
    written = record.read_bytes()
    assert b"train/loss" in written
    assert b"validation/reward" in written
