"""The workflow on a real Slurm: GPUs, cancelled jobs, edits while jobs wait. The GPUs are names; the rest is real."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from stages import records
from tests.slurm.conftest import Tree, accept_jobs, jobs, slurm, wait_for

RUNS = ("disturbed", "undisturbed")
EDITED = ("Snakefile", "config.yaml", "workflow/specs.py", "workflow/rules/grpo.smk", "stages/store.py")
BROKEN = "\nedited while jobs wait(\n"


@dataclass(frozen=True)
class Story:
    """One run of the workflow: everything it is made of was broken while the first jobs waited, and one training job
    was cancelled. `step`: the newest checkpoint before. `environments`: that of each training process."""

    tree: Tree
    status: int
    step: int
    environments: dict[str, dict[str, str]]
    while_broken: int


def folder(tree: Tree, experiment: str) -> Path:
    return tree / f"results/runs/{experiment}/learning_rate=0.001/seed=0"


def newest_checkpoint(tree: Tree, experiment: str) -> int:
    return max((int(path.name[5:]) for path in folder(tree, experiment).glob("state/step_*")), default=0)


def environment(tree: Tree, experiment: str) -> dict[str, str]:
    """Environment variables of the process that trains now, {} while there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
            variables = (process / "environ").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):  # it has ended
            continue
        ours = (process / "cwd").resolve() == tree.folder.resolve()
        if ours and words[1:4] == ["-P", "-m", "stages.grpo"] and any(f"/runs/{experiment}/" in word for word in words):
            return dict(variable.split("=", 1) for variable in variables if "=" in variable)
    return {}


@pytest.fixture(scope="module")
def story(make_tree: Callable[[str], Tree]) -> Story:
    tree = make_tree("story")
    accept_jobs("DOWN")
    workflow = tree.start("ladder")
    wait_for(lambda: len(jobs("rule_")) == 3, "the first three jobs to wait in the queue")
    originals = {name: (tree / name).read_text() for name in EDITED}
    for name, text in originals.items():
        (tree / name).write_text(text + BROKEN)
    accept_jobs("UP")
    environments = {name: wait_for(lambda name=name: environment(tree, name), f"{name} to train") for name in RUNS}
    step = wait_for(lambda: newest_checkpoint(tree, "disturbed"), "a checkpoint")
    slurm("scancel", jobs("rule_grpo_wildcards_disturbed")[-1]["JobId"])
    status = workflow.wait()
    (tree / "snakemake.log").rename(tree / "story.log")
    while_broken = tree.run("-n")
    for name, text in originals.items():
        (tree / name).write_text(text)
    return Story(tree, status, step, environments, while_broken)


def test_edits_while_jobs_wait_change_nothing_for_them(story: Story):
    assert story.status == 0, (story.tree / "story.log").read_text()
    assert story.while_broken != 0, "the edits broke nothing, so they show nothing"


def test_training_has_gpus_and_the_rest_has_none(story: Story):
    for name in RUNS:
        assert jobs(f"rule_grpo_wildcards_{name}_")[-1]["TresPerJob"] == "gres:gpu:1"
    for rule in ("prepare", "base_model", "grade"):
        assert all("TresPerJob" not in job for job in jobs(f"rule_{rule}"))
    devices = [story.environments[name]["CUDA_VISIBLE_DEVICES"] for name in RUNS]
    assert all(device.isdecimal() for device in devices), "each has one GPU"
    assert len(set(devices)) == len(RUNS), "of its own; which one depends on what else runs then"


def test_jobs_have_the_memory_the_time_and_the_threads_they_ask_for(story: Story):
    job = jobs("rule_grpo_wildcards_undisturbed_")[-1]
    assert (job["MinMemoryNode"], job["TimeLimit"], job["Partition"]) == ("62.50G", "12:00:00", "gpu")
    assert job["CPUs/Task"] == "1"
    assert story.environments["undisturbed"]["OMP_NUM_THREADS"] == "1"


def test_a_cancelled_job_goes_on_from_its_checkpoint(story: Story):
    states = [job["JobState"] for job in jobs("rule_grpo_wildcards_disturbed_")]
    assert states == ["CANCELLED", "COMPLETED"]
    assert [job["JobState"] for job in jobs("rule_grpo_wildcards_undisturbed_")] == ["COMPLETED"]
    log = (story.tree / "results/logs/grpo/disturbed/learning_rate=0.001/seed=0.log").read_text()
    said = next(line for line in log.splitlines() if "going on from step" in line)
    assert story.step <= int(said.split("step ")[1].split()[0]) < 80


def test_a_cancelled_job_loses_nothing(story: Story):
    """Rollouts, metrics and weights are those of the run that nobody disturbed, bit for bit."""
    one, other = (folder(story.tree, name) for name in RUNS)
    assert (one / "model/model.safetensors").read_bytes() == (other / "model/model.safetensors").read_bytes()
    for file, schema in (
        ("rollouts", records.ROLLOUTS),
        ("generations", records.ROLLOUTS),
        ("metrics", records.METRICS),
    ):
        tables = [records.read_table(run / f"{file}.parquet", schema) for run in (one, other)]
        same = [name for name in schema.names if not re.search("second|^run$|^model$", name)]
        left, right = (table.select(same).to_pandas() for table in tables)
        assert len(left) > 0
        assert left.equals(right), file


def test_afterwards_there_is_nothing_to_do(story: Story):
    before = len(jobs("rule_"))
    assert story.tree.run("ladder") == 0
    assert "Nothing to be done" in story.tree.said()
    assert len(jobs("rule_")) == before


def test_the_report_names_the_job_and_log_of_each_run(story: Story):
    job = jobs("rule_grpo_wildcards_undisturbed_")[-1]["JobId"]
    log = "results/logs/grpo/undisturbed/learning_rate=0.001/seed=0.log"
    report = (story.tree / "results/ladder.md").read_text()
    assert any(job in line and log in line for line in report.splitlines())
    assert (story.tree / log).is_file()
    assert list((story.tree / "logs/slurm").rglob(f"{job}.log"))


def test_a_job_that_was_planned_anew_meanwhile_refuses_to_run(make_tree: Callable[[str], Tree]):
    """Its workflow was killed and started again with other values, so that the file of its values is not its own."""
    tree, target, before = make_tree("anew"), "results/data/validation.parquet", len(jobs("rule_prepare"))
    accept_jobs("DOWN")
    first = tree.start(target)
    wait_for(lambda: len(jobs("rule_prepare")) == before + 1, "the job to wait in the queue")
    first.kill()
    first.wait()
    (tree / "config.yaml").write_text((tree / "config.yaml").read_text().replace("size: 6", "size: 7"))
    subprocess.run(["rm", "-r", tree / ".snakemake/locks"], check=True)
    second = tree.start(target)
    wait_for(lambda: len(jobs("rule_prepare")) == before + 2, "the second job to wait in the queue")
    accept_jobs("UP")
    assert second.wait() == 0, tree.said()
    old, new = jobs("rule_prepare")[-2:]
    assert (old["JobState"], new["JobState"]) == ("FAILED", "COMPLETED")
    assert "is not what this job was planned with" in Path(old["StdOut"]).read_text()
    assert records.read_table(tree / target, records.EXAMPLES).num_rows == 7
