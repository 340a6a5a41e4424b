"""Every preset and example plans whole, on a machine that has neither its data nor its policy nor a GPU."""

from __future__ import annotations

import shutil

import pytest
import yaml

from tests.workflow.conftest import ROOT, Tree, captions
from workflow.schema import load

PRESETS = sorted((ROOT / "workflow/presets").glob("*.yaml"))
FILES = [ROOT / "config.yaml", *PRESETS, *(ROOT / "examples").glob("*.yaml")]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The workflow with its real stages, and nothing else."""
    folder = tmp_path_factory.mktemp("presets")
    for name in ("stages", "workflow", "profiles", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, folder)
    return Tree(folder)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_target_plans(path, bare):
    config = load(yaml.safe_load(path.read_text()))
    targets = [f"{config.results}/{name}" for name in config.experiments]
    targets += [f"{config.results}/evaluations/{name}/metrics.parquet" for name in config.evaluations]
    planned = bare.snakemake("-n", "all", "ladder", *targets, f"--configfile={path.relative_to(ROOT)}")
    assert planned.returncode == 0, planned.stdout
    jobs = captions(planned.stdout)
    for name, runs in config.runs.items():
        assert f"Summarise experiment {name}: table, curves, winner, transcripts" in jobs
        for run in runs:
            assert any(f"{name}, {run}" in job for job in jobs), (name, run)
    assert {f"Grade the responses of evaluation {name}" for name in config.evaluations} <= jobs
    for judge, entry in config.judges.items():
        assert {f"Let {judge} judge the responses of evaluation {name}" for name in entry.evaluations} <= jobs
    assert not list(bare.folder.glob("results*"))


def test_the_math_preset_has_the_handouts_values():
    config = load(yaml.safe_load((ROOT / "workflow/presets/math_1.5b.yaml").read_text()))
    runs = config.runs["grpo_lr_sweep"]
    assert {values["learning_rate"] for values in runs.values()} >= {1.0e-5}
    wanted = {"n_grpo_steps": 200, "rollout_batch_size": 256, "group_size": 8, "epochs_per_rollout_batch": 1}
    wanted |= {"train_batch_size": 256, "gradient_accumulation_steps": 128, "loss_type": "reinforce_with_baseline"}
    wanted |= {"use_std_normalization": True, "advantage_eps": 1.0e-6, "num_validation_examples": 1024}
    wanted |= {"sampling_temperature": 1.0, "sampling_min_tokens": 4, "sampling_max_tokens": 1024}
    wanted |= {"adam_beta1": 0.9, "adam_beta2": 0.95, "weight_decay": 0.0, "max_grad_norm": 1.0}
    for values in runs.values():
        assert {key: values[key] for key in wanted} == wanted
    assert config.experiments["expert_iteration"].grid["question_batch_size"] == (512, 1024, 2048)
    assert config.compute.gpu_memory_utilization == 0.85
    for values in config.runs["leaderboard"].values():
        official = {"prompt": "r1_zero", "reward": "r1_zero", "num_validation_examples": "full", "max_seconds": 14400}
        assert {key: values[key] for key in official} == official


def test_the_math_preset_walks_the_whole_way_of_the_cpu_ladder():
    """Every GRPO experiment, with the same choices handed on."""
    paths = (ROOT / "config.yaml", ROOT / "workflow/presets/math_1.5b.yaml")
    ladder, math = (
        {name: one.get("inherit") for name, one in settings["experiments"].items() if one["stage"] == "grpo"}
        for settings in (yaml.safe_load(path.read_text()) for path in paths)
    )
    assert math == ladder


def test_the_8b_preset_has_the_supplements_values():
    config = load(yaml.safe_load((ROOT / "workflow/presets/instruct_8b.yaml").read_text()))
    (tuning,), (preferring,) = (config.runs[name].values() for name in ("instruct", "dpo"))
    wanted = {"learning_rate": 2.0e-5, "lr_schedule": "cosine", "warmup_fraction": 0.03, "n_epochs": 1}
    wanted |= {"train_batch_size": 32, "seq_length": 512}
    assert {key: tuning[key] for key in wanted} == wanted
    wanted = {"optimizer": "rmsprop", "learning_rate": 1.0e-6, "beta": 0.1, "train_batch_size": 64, "n_epochs": 1}
    assert {key: preferring[key] for key in wanted} == wanted
    assert preferring["start_from"] == "instruct"


def test_the_8b_preset_measures_the_four_benchmarks_of_every_policy():
    """The base policy under the zero-shot prompt, the trained ones in their template; greedily; judged where needed."""
    config = load(yaml.safe_load((ROOT / "workflow/presets/instruct_8b.yaml").read_text()))
    rewards = {"mmlu": "mmlu", "gsm8k": "gsm8k", "alpaca_eval": "none", "simple_safety_tests": "none"}
    found = {(one.model, one.dataset): one for one in config.evaluations.values()}
    assert set(found) == {(policy, name) for policy in ("base", "instruct", "dpo") for name in rewards}
    for (policy, name), one in found.items():
        assert (one.reward, one.sampling_temperature, one.num_examples) == (rewards[name], 0.0, "full")
        prompt, stop = ("zero_shot", ("# Query:",)) if policy == "base" else ("alpaca", ())
        assert (one.prompt, one.stop) == (prompt, stop)
    (judge,) = config.judges.values()
    ungraded = {name: one.dataset for name, one in config.evaluations.items() if one.reward == "none"}
    assert judge.evaluations == ungraded
    assert config.data["gsm8k"].question_form == "zero_shot"
