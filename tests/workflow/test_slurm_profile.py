"""The Slurm profile, as far as planning shows it; `make test-slurm` runs it on a real Slurm."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml

from tests.workflow.conftest import ROOT, Tree

PROFILE = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())


def rules_with_gpus() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk")]
    blocks = re.findall(r"^rule (\w+):\n((?:[ \n].*\n?)*)", "\n".join(texts), flags=re.MULTILINE)
    return {name for name, body in blocks if re.search(r"^\s+gpu=", body, flags=re.MULTILINE)}


def test_every_rule_with_gpus_is_given_its_memory_time_and_cores():
    asking = rules_with_gpus()
    assert asking >= {"grpo", "sft", "sample", "round_sample", "round_sft"}
    assert {name for name, given in PROFILE["set-resources"].items() if {"mem_mb", "runtime"} <= set(given)} == asking
    assert set(PROFILE["set-threads"]) == asking


def test_partition_account_and_gpu_type_stand_in_the_profile_alone():
    for path in [*(ROOT / "workflow/rules").glob("*.smk"), *(ROOT / "workflow/presets").glob("*.yaml")]:
        assert not re.search("partition|account|gpu_model|constraint=", path.read_text()), path


def test_from_the_root_the_profile_selects_the_gpu_preset(fresh: Tree):
    assert (ROOT / "slurm").resolve() == ROOT / "profiles/slurm"
    (fresh / "slurm").symlink_to("profiles/slurm")
    planned = fresh.plan("--profile", "slurm", "results/grpo_lr_sweep")
    assert sum(caption.startswith("Train with GRPO: grpo_lr_sweep") for caption in planned) == 4


def test_results_of_another_preset_are_not_overwritten(fresh: Tree):
    """On a machine where `make demo` has run, the literal command says the two ways out."""
    (fresh / "results").mkdir()
    demo = {"preset": "cpu_ladder", "model": "pretrain", "data": {}}
    (fresh / "results/preset.json").write_text(json.dumps(demo))
    refused = fresh.refusal("--profile", "profiles/slurm", "results/grpo_lr_sweep")
    assert "--config results=results-math_1.5b" in refused
    assert "mv results results-cpu_ladder-old" in refused


@pytest.mark.skipif(shutil.which("sbatch") is not None, reason="Slurm is here")
def test_without_slurm_nothing_is_submitted_claimed_or_removed(fresh: Tree):
    refused = fresh.snakemake("--executor", "slurm", "--jobs", "2", "--configfile=config.yaml")
    assert refused.returncode != 0
    assert "there is no sbatch here; run it where Slurm's commands are" in refused.stdout
    assert not (fresh / "results").exists()
