"""Rounds of expert iteration are cached one by one, and each of their four steps too."""

from __future__ import annotations

import json

from stages.records import METRICS, ROLLOUTS, read_table
from tests.workflow.conftest import Tree
from tests.workflow.test_rerun import selection

STEPS = (
    "Sample for expert iteration",
    "Grade for expert iteration",
    "Keep what is right",
    "Fine-tune on what is right",
)
TOGETHER = "Put the rounds together: rounds, seed=0"
RUN = "results/runs/rounds/seed=0"


def round_jobs(number: int, first: int = 0) -> set[str]:
    return {f"{step}: rounds, seed=0, round {number}" for step in STEPS[first:]}


def test_rounds_are_put_together(finished: Tree):
    status = json.loads((finished / RUN / "status.json").read_text())
    assert status["status"] == "finished"
    assert status["values"]["learning_rate"] == 0.003
    assert [one["kept"] for one in status["rounds"]] == [16, 16]
    rows = read_table(finished / RUN / "metrics.parquet", METRICS).to_pylist()
    assert [(row["round"], row["step"]) for row in rows] == [(1, 0), (1, 1), (2, 2)]
    assert set(read_table(finished / RUN / "generations.parquet", ROLLOUTS)["step"].to_pylist()) == {0, 1, 2}


def test_the_collected_policy_has_a_date_of_its_own(once: Tree):
    """Files are shared with the last round by links; a shared date would make the round newer than what came of it."""
    own, of_round = (once / RUN / folder / ".snakemake_timestamp" for folder in ("model", "round_2/model"))
    assert not own.samefile(of_round)


def test_a_round_samples_from_the_policy_before(finished: Tree):
    spec = json.loads((finished / RUN / "round_2/sample.spec.json").read_text())
    assert (spec["model"], spec["round"], spec["values"]["num_examples"]) == ("round 1", 2, 2)


def test_more_rounds_keep_the_first_ones(finished: Tree):
    finished.edit("config.yaml", "n_ei_steps: 2", "n_ei_steps: 4")
    planned = finished.plan()
    assert planned == round_jobs(3) | round_jobs(4) | {TOGETHER} | selection("rounds")


def test_grading_anew_samples_the_first_round_not_again(finished: Tree):
    finished.edit(
        "stages/grading/rewards.py", "def grade_response", "def another():\n    return 0\n\n\ndef grade_response"
    )
    planned = finished.plan(f"{RUN}/round_1/graded.parquet")
    assert planned == {"Grade for expert iteration: rounds, seed=0, round 1"}


def test_another_group_size_runs_again_from_the_first_round(finished: Tree):
    finished.edit("config.yaml", "n_ei_steps: 2", "n_ei_steps: 2, group_size: 2")
    assert finished.plan() == round_jobs(1) | round_jobs(2) | {TOGETHER} | selection("rounds")


def test_more_epochs_sample_the_first_round_not_again(finished: Tree):
    finished.edit("config.yaml", "n_ei_steps: 2", "n_ei_steps: 2, n_epochs: 3")
    assert finished.plan() == round_jobs(1, first=3) | round_jobs(2) | {TOGETHER} | selection("rounds")


def test_only_fine_tuning_values_are_inherited(fresh: Tree):
    fresh.edit("config.yaml", "grid: {learning_rate: [1.0e-3, 3.0e-3]}", "grid: {group_size: [4, 8]}")
    fresh.edit("config.yaml", "inherit: {learning_rate: rates}\n  scaling", "inherit: {group_size: rates}\n  scaling")
    fresh.edit(
        "config.yaml",
        "question_batch_size: 2}\n    inherit: {learning_rate: rates}",
        "question_batch_size: 2}\n    inherit: {group_size: rates}",
    )
    assert (
        "experiments.rounds.inherit.group_size: expert iteration inherits what its fine-tuning uses alone"
        in fresh.refusal()
    )
