"""Which configs and folders are refused before anything runs, as a person sees it."""

from __future__ import annotations

import json

import pytest

from tests.workflow.conftest import ROOT, Tree, captions

BASE_MODEL = "Make the base policy: copy it from a folder or the hub, or pretrain it"


def lines(refused: str) -> list[str]:
    """The faults: the indented lines below `the config cannot work:`."""
    after = refused.partition("the config cannot work:\n")[2]
    return [line.strip() for line in after.splitlines() if line.startswith("  ") and not line.startswith("  File")]


def test_faults_come_one_a_line_and_without_a_traceback(fresh: Tree):
    fresh.edit("config.yaml", "{loss_type: [no_baseline]}", "{los_type: [no_baseline]}")
    fresh.edit("config.yaml", "learning_rate: 1.0e-3}", "learning_rate: -1}")
    refused = fresh.refusal()
    assert lines(refused) == [
        "experiments.imitation.fixed.learning_rate: Input should be greater than or equal to 0 (got -1)",
        "experiments.losses.grid.los_type: unknown key; did you mean loss_type?",
        "experiments.scaling.inherit.loss_type: losses does not sweep loss_type; it sweeps los_type",
    ]
    assert "Traceback" not in refused


def test_the_shipped_configs_plan(fresh: Tree):
    (fresh / "config.yaml").write_text((ROOT / "config.yaml").read_text())
    assert len(fresh.plan()) > 15
    (fresh / "base.yaml").write_text((ROOT / "examples/base.yaml").read_text())
    assert BASE_MODEL in fresh.plan("--configfile", "base.yaml")
    (fresh / "gsm8k.yaml").write_text((ROOT / "examples/gsm8k.yaml").read_text())
    (fresh / "mine.jsonl").write_text('{"question": "1 + 1?", "answer": "It is 2. #### 2"}\n')
    (fresh / "results/models/base").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (fresh / "results/models/base" / name).touch()
    planned = fresh.plan("--configfile", "gsm8k.yaml", "--config", "data={test: {path: mine.jsonl}}")
    assert planned == {
        BASE_MODEL,
        "Prepare dataset test",
        "Sample responses for evaluation zero_shot",
        "Grade the responses of evaluation zero_shot",
        "Write the report",
    }


def test_a_config_file_replaces_the_default_one(fresh: Tree):
    (fresh / "other.yaml").write_text("preset: other\nmodel: {pretrain: {}}\ndata: {}\n")
    planned = fresh.plan("--configfile", "other.yaml")
    assert planned == {BASE_MODEL, "Write the report"}


def test_training_stages_of_several_processes_start_under_torchrun(fresh: Tree):
    planned = fresh.snakemake("-n", "-p", "--config", "compute={train_processes: 4}").stdout
    commands = [line for line in planned.splitlines() if " -m stages." in line]
    launched = {line.partition(" -m stages.")[2].split()[0] for line in commands if "torch.distributed.run" in line}
    assert {"sft", "grpo"} <= launched <= {"sft", "grpo", "instruct", "dpo"}
    assert all("PYTHONSAFEPATH=1" in line for line in commands if "--standalone --nproc-per-node 4 -m" in line)
    assert "torch.distributed.run" not in fresh.snakemake("-n", "-p").stdout


def test_another_preset_may_not_overwrite_results(finished: Tree):
    record = (finished / "results/preset.json").read_text()
    finished.edit("config.yaml", "preset: test", "preset: other")
    refused = finished.refusal()
    assert "preset: test there, other in the config" in refused
    assert "--config results=results-other" in refused
    assert "mv results results-test-old" in refused
    assert finished.snakemake("--cores", "1").returncode != 0
    assert (finished / "results/preset.json").read_text() == record
    assert len(finished.plan("--config", "results=elsewhere")) > 10
    (finished / "results").rename(finished / "results-test-old")
    assert len(finished.plan()) > 10
    assert not (finished / "results").exists()


def test_another_policy_may_not_overwrite_results(finished: Tree):
    pinned = f"model: {{hub: some/model, revision: {40 * 'a'}}}"
    finished.edit("config.yaml", "model:\n  pretrain: {n_steps: 1}", pinned)
    assert "model: pretrain there, hub some/model@aaa" in finished.refusal()


def test_the_first_run_claims_the_folder(fresh: Tree):
    fresh.run("results/data/train.parquet")
    kinds = {"train": "arithmetic", "validation": "arithmetic", "traces": "arithmetic_traces"}
    assert json.loads((fresh / "results/preset.json").read_text()) == {
        "preset": "test",
        "model": "pretrain",
        "data": kinds,
    }


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ([], "model.path: mine lacks config.json; give a folder that save_pretrained wrote"),
        (["config.json", "tokenizer.json", "pytorch_model.bin"], "model.path: mine lacks weights (*.safetensors"),
    ],
)
def test_a_model_folder_that_cannot_work(fresh: Tree, files: list[str], fault: str):
    fresh.edit("config.yaml", "model:\n  pretrain: {n_steps: 1}", "model: {path: mine}")
    (fresh / "mine").mkdir()
    for name in files:
        (fresh / "mine" / name).touch()
    assert any(line.startswith(fault) for line in lines(fresh.refusal()))


@pytest.mark.parametrize(
    ("old", "new", "key", "path", "job"),
    [
        (
            "{source: arithmetic, split: train, size: 4}",
            "{source: gsm8k, path: no.jsonl}",
            "data.train.path",
            "no.jsonl",
            "Prepare dataset train",
        ),
        ("model:\n  pretrain: {n_steps: 1}", "model: {path: mine}", "model.path", "mine", BASE_MODEL),
    ],
)
def test_what_the_user_has_yet_to_bring_can_be_planned_but_not_run(fresh: Tree, old, new, key, path, job):
    fresh.edit("config.yaml", old, new)
    told = f"{key}: there is no {path} (relative paths start at {fresh.folder}); put it there, or name another"
    planned = fresh.snakemake("-n")
    assert planned.returncode == 0, planned.stdout
    assert planned.stdout.count(told) == 1
    assert job in captions(planned.stdout)
    assert len(captions(planned.stdout)) > 15
    refused = fresh.snakemake("--cores", "1")
    assert refused.returncode != 0
    assert told in refused.stdout
    assert f"affected files:\n        {path}" in refused.stdout
    assert not captions(refused.stdout)
    assert told not in fresh.snakemake("-n", "results/data/validation.parquet").stdout


def test_a_model_folder_of_ones_own(fresh: Tree):
    fresh.edit("config.yaml", "model:\n  pretrain: {n_steps: 1}", "model: {path: mine}")
    (fresh / "mine").mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (fresh / "mine" / name).write_text("{}")
    fresh.run("results/models/base")
    assert fresh.plan("results/models/base") == set()
    (fresh / "mine/model.safetensors").write_text("other weights")
    assert fresh.plan("results/models/base") == {BASE_MODEL}


def test_a_shipped_policy_with_other_weights_is_another(fresh: Tree):
    fresh.edit("config.yaml", "model:\n  pretrain: {n_steps: 1}", "model: {shipped: tiny}")
    fresh.run("results/models/base")
    assert fresh.plan("results/models/base") == set()
    (fresh / "stages/policy/shipped/tiny/model.safetensors").write_text("other weights")
    assert fresh.plan("results/models/base") == {BASE_MODEL}
    fresh.edit("config.yaml", "model: {shipped: tiny}", "model: {pretrain: {n_steps: 1}}")
    assert "model: shipped tiny there, pretrain in the config" in fresh.refusal()


def test_a_stage_that_does_not_parse_is_named(fresh: Tree):
    with open(fresh / "stages/grpo.py", "a") as file:
        file.write("def (\n")
    assert "stages/grpo.py, line" in fresh.refusal()
