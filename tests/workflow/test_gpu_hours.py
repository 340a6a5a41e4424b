"""GPU-hours before anything runs, from the real Snakefile: two GRPO runs of at most four hours are 8 GPU-hours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import Tree
from workflow import gpu_hours
from workflow.gpu_hours import Job


def hours(tree: Tree, *arguments: str) -> dict[str, list[str]]:
    """Rule -> cells of its row, as the command prints them."""
    command = [sys.executable, "-m", "workflow.gpu_hours", *arguments]
    done = subprocess.run(command, cwd=tree.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in cells}


def test_runs_count_their_gpus_times_their_runtime(fresh: Tree):
    printed = hours(fresh, "results/rates")
    assert printed["grpo"] == ["2", "1", "4.0 h", "8.0", "–"]
    assert printed["total"] == ["2", "", "", "8.0", "–"]
    assert not (fresh / "results").exists()


def test_what_a_target_builds_on_counts_though_its_winners_are_not_known_yet(fresh: Tree):
    """scaling inherits from rates and from losses, which inherits from rates itself: two, one and one run."""
    assert hours(fresh, "results/scaling")["grpo"][0] == "4"
    everything = hours(fresh)
    assert (everything["grpo"][0], everything["sft"][0], everything["round_sft"][0]) == ("4", "1", "2")
    fresh.edit("config.yaml", "  imitation:\n", "  imitation:\n    compare_with: [scaling]\n")
    printed = hours(fresh, "results/imitation", "--config", "preset=other")
    assert (printed["grpo"][0], printed["sft"][0]) == ("4", "1")


def test_the_resources_of_a_profile_count(fresh: Tree):
    printed = hours(fresh, "results/rates", "--profile", "profiles/slurm", "--configfile=config.yaml")
    assert printed["grpo"] == ["2", "1", "12 h", "24", "–"]


def test_a_run_takes_the_gpus_of_its_processes_and_of_its_sampler(fresh: Tree):
    compute = "compute: {engine: vllm, placement: separate_gpu, tensor_parallel_size: 2, train_processes: 4}\n"
    fresh.edit("config.yaml", "preset: test\n", f"preset: test\n{compute}")
    printed = hours(fresh, "results/rates", "results/evaluations/zero_shot/graded.parquet")
    assert printed["grpo"][1:3] == ["6", "4.0 h"]
    assert printed["sample"][1:3] == ["2", "2.0 h"]


def test_what_is_done_counts_nothing_and_says_how_long_the_rest_takes(finished: Tree):
    assert hours(finished, "results/rates")["total"] == ["0", "", "", "0", "–"]
    for status in (finished / "results/runs/rates").rglob("status.json"):
        told = json.loads(status.read_text())
        status.write_text(json.dumps(told | {"gpus": 1, "cores": 4, "seconds": 7200.0}))
    finished.edit("config.yaml", "[1.0e-3, 3.0e-3]", "[1.0e-3, 3.0e-3, 2.0e-3]")
    assert hours(finished, "results/rates")["grpo"] == ["1", "1", "4.0 h", "4.0", "2.0"]


def test_snakemakes_refusal_is_its_own(fresh: Tree):
    command = [sys.executable, "-m", "workflow.gpu_hours", "results/nothing"]
    refused = subprocess.run(command, cwd=fresh.folder, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "No rule to produce results/nothing" in refused.stdout


def write_status(runs: Path, run: str, stage: str, **facts: float) -> Path:
    folder = runs / run
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"stage": stage}))
    (folder / "status.json").write_text(json.dumps(facts))
    return folder / "status.json"


def test_runs_of_the_same_experiment_go_before_those_of_the_same_rule(tmp_path: Path):
    runs = tmp_path / "runs"
    mine = write_status(runs, "rates/seed=0", "grpo", gpus=1, seconds=10)
    write_status(runs, "rates/seed=1", "grpo", gpus=1, seconds=30)
    write_status(runs, "losses/seed=0", "grpo", gpus=1, seconds=500)
    write_status(runs, "imitation/seed=0", "sft", gpus=1, seconds=900)
    assert gpu_hours.seconds_like("grpo", "rates", mine) == 20
    assert gpu_hours.seconds_like("grpo", "new", runs / "new/seed=0/status.json") == pytest.approx(180)
    assert gpu_hours.seconds_like("dpo", "new", runs / "new/seed=0/status.json") is None


def test_runs_without_a_gpu_and_whole_runs_say_nothing_about_rounds_on_one(tmp_path: Path):
    runs = tmp_path / "runs"
    write_status(runs, "rounds/seed=0", "collect", gpus=1, seconds=70)
    mine = write_status(runs, "rounds/seed=0/round_1", "sft", gpus=0, seconds=30)
    assert gpu_hours.seconds_like("round_sft", "rounds", mine) is None
    write_status(runs, "rounds/seed=0/round_2", "sft", gpus=1, seconds=40)
    assert gpu_hours.seconds_like("round_sft", "rounds", mine) == 40


def test_an_estimate_of_some_says_of_how_many():
    jobs = [Job("grpo", 2, 4.0, measured=1.5), Job("sft", 1, 4.0)]
    assert gpu_hours.expected(jobs) == "3.0 for 1 of 2"
    assert gpu_hours.bound(jobs) == "12"


def test_a_rule_with_gpus_needs_a_runtime():
    with pytest.raises(SystemExit, match="rule judge asks for GPUs without a runtime"):
        gpu_hours.job_of("judge", {"gpu": 1}, {}, [])
