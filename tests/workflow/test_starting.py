"""Runs that start from the winner of an earlier experiment instead of the base policy."""

from __future__ import annotations

import json
import re

import pytest

from tests.workflow.conftest import Tree

AFTER = """  after:
    stage: grpo
    fixed: {train: train, validation: validation, learning_rate: 1.0e-3}
    grid: {start_from: [null, rates]}
  later:
    stage: expert_iteration
    fixed: {train: train, validation: validation, n_ei_steps: 2, question_batch_size: 2, start_from: after}
"""
GRADED = "results/evaluations/best/graded.parquet"
BASE, RATES = "start_from=null/seed=0", "start_from=rates/seed=0"


@pytest.fixture
def tree(finished: Tree) -> Tree:
    finished.edit("config.yaml", "experiments:", "  best: {dataset: validation, model: rates}\nexperiments:")
    with open(finished / "config.yaml", "a") as config:
        config.write(AFTER)
    return finished


def models(log: str) -> dict[str, str]:
    """Specification of each training or sampling job -> the policy it starts from, from printed commands."""
    return dict(re.findall(r"--spec (\S+) --model (\S+)", log.replace("'", "")))


def test_the_checkpoint_of_the_winner_is_where_training_starts(tree: Tree):
    done = tree.snakemake("--cores", "2", "-p", "results/later", GRADED)
    assert done.returncode == 0, done.stdout
    found = models(done.stdout)
    best = "results/runs/rates/learning_rate=0.003/seed=0/model"
    assert json.loads((tree / "results/winners/rates.json").read_text())["run"] in best
    assert found[f"results/runs/after/{BASE}/spec.json"] == "results/models/base"
    assert found[f"results/runs/after/{RATES}/spec.json"] == best
    assert found["results/runs/later/seed=0/round_1/sample.spec.json"] == f"results/runs/after/{BASE}/model"
    assert found["results/runs/later/seed=0/round_2/sample.spec.json"] == "results/runs/later/seed=0/round_1/model"
    assert found["results/evaluations/best/spec.json"] == best
    assert json.loads((tree / f"results/runs/after/{RATES}/spec.json").read_text())["model"] == "rates"
    assert tree.plan("results/later", GRADED) == set()


def test_another_winner_trains_anew_and_the_same_winner_does_not(tree: Tree):
    tree.run("results/after", GRADED)
    tree.edit("config.yaml", "[1.0e-3, 3.0e-3]", "[1.0e-3, 3.0e-3, 2.0e-3]")
    ran = tree.run("results/after", GRADED)
    assert "Train with GRPO: rates, learning_rate=0.002/seed=0" in ran
    assert not {job for job in ran if ("after" in job and "Train" in job) or "evaluation" in job}
    tree.edit("config.yaml", "3.0e-3, 2.0e-3]", "3.0e-3, 4.0e-3]")
    ran = tree.run("results/after", GRADED)
    assert {job for job in ran if "after" in job and "Train" in job} == {f"Train with GRPO: after, {RATES}"}
    evaluated = {"Sample responses for evaluation best", "Grade the responses of evaluation best"}
    assert {job for job in ran if "evaluation" in job} == evaluated


def test_a_winner_that_is_no_longer_in_the_config_is_chosen_anew(tree: Tree):
    tree.run("results/later", GRADED)
    tree.edit("config.yaml", "[1.0e-3, 3.0e-3]", "[1.0e-3, 2.0e-3]")
    done = tree.snakemake("--cores", "2", "-p", "results/later", GRADED)
    assert done.returncode == 0, done.stdout
    found = models(done.stdout)
    best = "results/runs/rates/learning_rate=0.002/seed=0/model"
    assert found["results/evaluations/best/spec.json"] == found[f"results/runs/after/{RATES}/spec.json"] == best
    assert tree.plan("results/later", GRADED) == set()


@pytest.mark.parametrize(
    ("start", "fault"),
    [
        ("rtes", "experiments.after.start_from: no experiment named 'rtes'; did you mean rates?"),
        ("after", "experiments.after.start_from: goes round in a circle: after -> after"),
        ("later", "experiments.after.start_from: goes round in a circle: after -> later -> after"),
    ],
)
def test_a_start_that_cannot_be_is_refused(tree: Tree, start: str, fault: str):
    tree.edit("config.yaml", "[null, rates]", f"[null, {start}]")
    assert fault in tree.refusal()


def test_where_runs_start_cannot_be_inherited(tree: Tree):
    tree.edit("config.yaml", "start_from: after}", "learning_rate: 1.0e-3}\n    inherit: {start_from: after}")
    told = "experiments.later.inherit.start_from: where runs start from cannot be inherited; name an experiment under"
    assert told in tree.refusal()
