"""The base policy that comes with the project: whole, about as able as the ladder's story has it, found anywhere."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import torch
import yaml
from safetensors.torch import load_file

from stages import base_model
from stages.config import Sampled
from stages.engines.opening import open_engine
from stages.engines.rollouts import sample_rows
from stages.grading.rewards import grade_response
from stages.hardware import Compute
from stages.policy import shipped
from stages.policy.loading import load_policy
from stages.sources import ModelSource, Pretrain
from stages.tasks.arithmetic import examples
from tests.workflow.conftest import ROOT

TINY = shipped.folder("tiny")
WEIGHTS = TINY / "model.safetensors"


def test_the_files_are_those_that_the_readme_names():
    listed = dict(
        reversed(line.split()) for line in re.findall(r"[0-9a-f]{64}  \S+", (TINY.parent / "README.md").read_text())
    )
    assert listed == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in TINY.iterdir()}


def test_an_installed_package_has_the_files():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = ROOT / "stages/policy"
    packed = {file for pattern in data["stages.policy"] for file in folder.glob(pattern)}
    assert set(TINY.iterdir()) <= packed


def test_the_copy_is_the_shipped_policy_bit_for_bit(tmp_path):
    base_model.copy(ModelSource(shipped="tiny"), tmp_path / "base")
    copied, there = load_file(tmp_path / "base" / "model.safetensors"), load_file(WEIGHTS)
    assert copied.keys() == there.keys()
    assert all(torch.equal(copied[key], there[key]) for key in there)
    assert all(torch.isfinite(weight).all() for weight in there.values())


def test_the_command_that_made_it_is_kept():
    """The example pretrains a policy of the shipped one's shape, with the settings that are its defaults."""
    made = Pretrain(**yaml.safe_load((ROOT / "examples/base.yaml").read_text())["model"]["pretrain"])
    config = json.loads((TINY / "config.json").read_text())
    assert made == Pretrain()
    assert (config["hidden_size"], config["num_hidden_layers"]) == (made.hidden_size, made.num_layers)


@pytest.mark.parametrize(("prompt", "low", "high"), [("r1_zero", 0.08, 0.35), ("question_only", 0.4, 0.75)])
def test_there_is_something_to_learn_and_something_to_learn_from(prompt, low, high):
    """Wide of any processor's rounding: four standard errors of 192 questions, and more."""
    model, tokenizer = load_policy(TINY)
    engine = open_engine(Compute(), TINY, model, tokenizer, 64)
    settings = Sampled(prompt=prompt, reward=prompt, sampling_max_tokens=40)
    rows = sample_rows(
        engine,
        lambda text: tokenizer(text).input_ids,
        examples("validation", 192, 0),
        settings,
        step=0,
        group_size=1,
        seed_step=0,
        model="tiny",
        run="test",
    )
    right = sum(grade_response(row["response"], row["ground_truth"], prompt).answer_reward for row in rows)
    assert low < right / len(rows) < high


def test_a_workflow_started_elsewhere_on_frozen_code_finds_it(tmp_path):
    """Snakefile in one folder, work in another, and no shipped folder anywhere near the latter."""
    for name in ("stages", "workflow", "profiles"):
        shutil.copytree(ROOT / name, tmp_path / "code" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", tmp_path / "code")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.yaml").write_text("preset: mine\nmodel: {shipped: tiny}\ndata: {}\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "-s", "code/Snakefile", "-d", "elsewhere"]
    done = subprocess.run([*command, "results/models/base"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    base = load_file(tmp_path / "elsewhere/results/models/base/model.safetensors")
    assert all(torch.equal(base[key], weight) for key, weight in load_file(WEIGHTS).items())
    assert json.loads((tmp_path / "elsewhere/results/preset.json").read_text())["model"] == "shipped tiny"
