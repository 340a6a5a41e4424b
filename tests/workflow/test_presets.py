"""Every preset and example plans, once the files it names are there."""

from __future__ import annotations

import pytest
import yaml

from tests.workflow.conftest import ROOT
from workflow.schema import load

FILES = [ROOT / "config.yaml", *(ROOT / "workflow/presets").glob("*.yaml"), *(ROOT / "examples").glob("*.yaml")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_preset_is_a_whole_config_without_faults(path, tmp_path, monkeypatch):
    settings = yaml.safe_load(path.read_text())
    monkeypatch.chdir(tmp_path)
    for source in settings["data"].values():
        if "path" in source:
            (tmp_path / source["path"]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / source["path"]).touch()
    if "path" in settings["model"]:
        (tmp_path / settings["model"]["path"]).mkdir(parents=True)
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (tmp_path / settings["model"]["path"] / name).touch()
    config = load(settings)
    assert set(config.runs) == set(settings.get("experiments", {}))


def test_the_math_preset_starts_from_the_handouts_values():
    settings = yaml.safe_load((ROOT / "workflow/presets/math_1.5b.yaml").read_text())
    from stages.config import Grpo

    fixed = Grpo.model_validate(settings["experiments"]["grpo_lr_sweep"]["fixed"])
    assert (fixed.n_grpo_steps, fixed.rollout_batch_size, fixed.group_size) == (200, 256, 8)
    assert (fixed.sampling_max_tokens, fixed.num_validation_examples) == (1024, 1024)
    grid = settings["experiments"]["expert_iteration"]["grid"]
    assert grid["question_batch_size"] == [512, 1024, 2048]
