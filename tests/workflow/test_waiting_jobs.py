"""What a cluster's node runs for one job, after everything was edited while the job waited in the queue."""

from __future__ import annotations

import subprocess

from tests.workflow.conftest import Tree

EDITED = ("Snakefile", "config.yaml", "workflow/specs.py", "workflow/rules/data.smk", "stages/prepare.py")
SPEC = "results/data/train.spec.json"


def run_on_a_node(tree: Tree) -> subprocess.CompletedProcess[str]:
    """The job that makes dataset train, started as Snakemake's executors start it: by frozen Snakefile and config."""
    store = tree / ".snakemake/code"
    newest = {kind: max(store.glob(kind), key=lambda path: path.stat().st_mtime) for kind in ("*/Snakefile", "*.json")}
    files = ("--snakefile", str(newest["*/Snakefile"]), "--configfiles", str(newest["*.json"]))
    job = ("--target-jobs", "prepare:dataset=train", "--allowed-rules", "prepare", "--force", "--cores", "1")
    return tree.snakemake(*files, *job, "--nolock", "--mode", "remote")


def test_executors_are_given_the_frozen_snakefile(fresh: Tree):
    """What a plan prints as its Snakefile is what executors put on the command line of a job."""
    planned = fresh.snakemake("-n").stdout
    (frozen,) = (fresh / ".snakemake/code").glob("*/Snakefile")
    assert f"Snakefile: {frozen}" in planned


def test_edits_while_a_job_waits_change_nothing_for_it(finished: Tree):
    finished.plan()
    for name in EDITED:
        (finished / name).write_text("edited while jobs wait(\n")
    assert finished.snakemake("-n").returncode != 0
    (finished / "results/data/train.parquet").unlink()
    done = run_on_a_node(finished)
    assert done.returncode == 0, done.stdout
    assert (finished / "results/data/train.parquet").is_file()


def test_a_job_whose_values_were_planned_anew_refuses_to_run(finished: Tree):
    finished.plan()
    finished.edit(SPEC, '"size": 4', '"size": 5')
    refused = run_on_a_node(finished)
    assert refused.returncode != 0
    assert f"{SPEC} is not what this job was planned with" in refused.stdout
