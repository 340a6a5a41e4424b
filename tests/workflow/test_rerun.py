"""What runs again after which edit, on the real Snakefile. Most tests only plan; winners need jobs to run."""

from __future__ import annotations

import json

import pytest

from tests.workflow.conftest import Tree

RATES = {
    "Train with GRPO: rates, learning_rate=0.001/seed=0",
    "Train with GRPO: rates, learning_rate=0.003/seed=0",
}
LOSSES = "Train with GRPO: losses, loss_type=no_baseline/seed=0"
SCALING = "Train with GRPO: scaling, use_std_normalization=false/seed=0"
IMITATION = "Fine-tune: imitation, seed=0"
FINE_TUNED_AGAIN = {  # all of expert iteration that follows its first fine-tuning
    "Fine-tune on what is right: rounds, seed=0, round 1",
    "Sample for expert iteration: rounds, seed=0, round 2",
    "Grade for expert iteration: rounds, seed=0, round 2",
    "Keep what is right: rounds, seed=0, round 2",
    "Fine-tune on what is right: rounds, seed=0, round 2",
    "Put the rounds together: rounds, seed=0",
}
SAMPLE = "Sample responses for evaluation zero_shot"
REPORT = "Write the report"


def selection(experiment: str) -> set[str]:
    return {
        f"Choose the winner of experiment {experiment}",
        f"Summarise experiment {experiment}: table, curves, winner, transcripts",
        REPORT,
    }


def training(captions: set[str]) -> set[str]:
    return {caption for caption in captions if caption.startswith(("Train", "Fine-tune", "Make", "Sample"))}


def test_after_a_finished_run_there_is_nothing_to_do(finished: Tree):
    planned = finished.snakemake("-n")
    assert planned.returncode == 0
    assert "Nothing to be done" in planned.stdout
    assert finished.run() == set()


def test_every_declared_output_is_there(finished: Tree):
    results = finished / "results"
    assert json.loads((results / "winners/rates.json").read_text())["values"] == {"learning_rate": 0.003}
    assert json.loads((results / "preset.json").read_text())["preset"] == "test"
    for path in ("report.html", "report.md", "rates/table.csv", "losses/curves.svg", "imitation/winner.json"):
        assert (results / path).stat().st_size > 0, path


def test_the_logs_that_a_report_names_are_there(finished: Tree):
    logs = json.loads((finished / "results/report.spec.json").read_text())["logs"]
    assert set(logs) >= {"base model", "evaluation zero_shot", "rates/learning_rate=0.003/seed=0", "rounds/seed=0"}
    assert [path for path in logs.values() if not (finished / path).is_file()] == []
    assert logs["rounds/seed=0"] in (finished / "results/report.md").read_text()


def test_jobs_are_told_their_share_of_the_cores(finished: Tree):
    assert "threads 2 2" in (finished / "results/logs/base_model.log").read_text()
    assert "threads 1 1" in (finished / "results/logs/sft/imitation/seed=0.log").read_text()


def test_another_learning_rate_runs_itself_the_selection_and_the_summary(finished: Tree):
    """The new value loses, so the winner stays, and with it the experiments that inherit it."""
    finished.edit("config.yaml", "[1.0e-3, 3.0e-3]", "[2.0e-3, 3.0e-3]")
    new = "Train with GRPO: rates, learning_rate=0.002/seed=0"
    assert finished.run() == {new} | selection("rates")
    assert finished.plan() == set()


def test_a_new_winner_runs_what_inherits_it(finished: Tree):
    finished.edit("config.yaml", "[1.0e-3, 3.0e-3]", "[1.0e-3, 4.0e-3]")
    new = "Train with GRPO: rates, learning_rate=0.004/seed=0"
    experiments = selection("rates") | selection("losses") | selection("scaling") | selection("rounds")
    assert finished.run() == {new, LOSSES, SCALING} | FINE_TUNED_AGAIN | experiments
    status = json.loads((finished / "results/runs/losses/loss_type=no_baseline/seed=0/status.json").read_text())
    assert status["values"]["learning_rate"] == 0.004
    assert finished.plan() == set()


def test_a_comparison_summarises_and_trains_nothing(finished: Tree):
    """The shown winner inherits too, so that its change is known only while jobs run."""
    summary = "Summarise experiment imitation: table, curves, winner, transcripts"
    finished.edit("config.yaml", "  imitation:\n", "  imitation:\n    compare_with: [losses]\n")
    assert finished.run() == {summary, REPORT}
    assert "reference: losses" in (finished / "results/imitation/table.md").read_text()
    assert finished.plan() == set()
    finished.edit("config.yaml", "[1.0e-3, 3.0e-3]", "[2.0e-3, 3.0e-3]")  # loses: losses stays as it is
    assert finished.run() == {"Train with GRPO: rates, learning_rate=0.002/seed=0"} | selection("rates")
    finished.edit("config.yaml", "[2.0e-3, 3.0e-3]", "[2.0e-3, 4.0e-3]")  # wins: losses trains again
    experiments = selection("rates") | selection("losses") | selection("scaling") | selection("rounds")
    new = "Train with GRPO: rates, learning_rate=0.004/seed=0"
    assert finished.run() == {new, LOSSES, SCALING, summary} | FINE_TUNED_AGAIN | experiments
    assert finished.plan() == set()


def test_a_fixed_value_runs_its_experiment_alone(finished: Tree):
    finished.edit("config.yaml", "{train: traces, ", "{weight_decay: 0.1, train: traces, ")
    assert finished.plan() == {IMITATION} | selection("imitation")


def test_a_description_trains_nothing(finished: Tree):
    finished.edit("config.yaml", "  rates:\n", "  rates:\n    description: Which rate?\n")
    assert finished.run() == selection("rates")


def test_another_dataset_size_runs_what_reads_it(finished: Tree):
    finished.edit("config.yaml", "split: train, size: 4", "split: train, size: 5")
    planned = finished.plan()
    assert "Prepare dataset train" in planned
    assert training(planned) >= RATES
    assert not training(planned) & {IMITATION, SAMPLE}


def test_an_edit_in_sft_leaves_grpo_alone(finished: Tree):
    with open(finished / "stages/sft.py", "a") as file:
        file.write("\nEDITED = 1\n")
    assert finished.plan() == {IMITATION} | selection("imitation") | FINE_TUNED_AGAIN | selection("rounds")


def test_an_edit_of_a_loss_runs_what_imports_it(finished: Tree):
    """And what inherits from it: a dry run cannot know that the winner will stay."""
    with open(finished / "stages/algorithm/policy_gradient.py", "a") as file:
        file.write("\nEDITED = 1\n")
    assert training(finished.plan()) == RATES | {LOSSES, SCALING} | training(FINE_TUNED_AGAIN)


def test_comments_and_docstrings_run_nothing(finished: Tree):
    for path in (finished / "stages").rglob("*.py"):
        path.write_text(path.read_text() + "\n# a remark\n")
    finished.edit("stages/grpo.py", '"""Stands in for', '"""Plays')
    assert finished.plan() == set()
    assert finished.run() == set()


def test_an_edited_prompt_samples_and_trains_again(finished: Tree):
    with open(finished / "stages/tasks/prompts/r1_zero.prompt", "a") as file:
        file.write(" ")
    assert training(finished.plan()) >= RATES | {IMITATION, SAMPLE}


def test_code_edits_can_be_ignored_values_cannot(finished: Tree):
    triggers = ("--rerun-triggers", "mtime", "input")
    with open(finished / "stages/grpo.py", "a") as file:
        file.write("\nEDITED = 1\n")
    assert training(finished.plan(*triggers)) == set()
    finished.edit("config.yaml", "learning_rate: 1.0e-3}", "learning_rate: 2.0e-3}")
    assert finished.plan(*triggers) == {IMITATION} | selection("imitation")


def test_code_ignored_in_a_real_run_is_not_forgotten(finished: Tree):
    with open(finished / "stages/sft.py", "a") as file:
        file.write("\nEDITED = 1\n")
    finished.snakemake("--cores", "2", "--rerun-triggers", "mtime", "input")
    assert finished.plan() == {IMITATION} | selection("imitation") | FINE_TUNED_AGAIN | selection("rounds")


def test_a_deleted_output_is_made_again(finished: Tree):
    (finished / "results/winners/imitation.json").unlink()
    assert "Choose the winner of experiment imitation" in finished.plan("results/winners/imitation.json")


@pytest.mark.parametrize(
    ("target", "trained"),
    [
        ("results/rates", RATES),
        ("results/runs/rates/learning_rate=0.003/seed=0/metrics.parquet", {max(RATES)}),
        ("results/losses", RATES | {LOSSES}),
    ],
)
def test_single_targets(fresh: Tree, target: str, trained: set[str]):
    planned = fresh.plan(target)
    assert {caption for caption in training(planned) if not caption.startswith("Make")} == trained


def test_an_unknown_run_is_refused_with_the_known_ones(fresh: Tree):
    refused = fresh.refusal("results/runs/rates/learning_rate=0.01/seed=0/metrics.parquet")
    assert "experiment rates has no run learning_rate=0.01/seed=0; did you mean learning_rate=0.001/seed=0" in refused


def test_a_dry_run_leaves_no_trace_in_results(fresh: Tree):
    everything, report = fresh.plan(), fresh.plan("results/report.html")
    assert everything == report
    assert len(everything) == 31
    assert not (fresh / "results").exists()


def test_planning_twice_writes_the_same_specifications(finished: Tree):
    specs = {path: path.read_bytes() for path in finished.folder.rglob("*spec.json") if ".snakemake" not in path.parts}
    assert len(specs) == 31
    finished.run("--forcerun", "report")
    assert {path: path.read_bytes() for path in specs} == specs


def test_a_failed_stage_shows_its_message(fresh: Tree):
    (fresh / "broken.jsonl").write_text("{}\n")
    fresh.edit(
        "config.yaml", "{source: arithmetic_traces, size: 10}", "{source: jsonl, path: broken.jsonl, response: r}"
    )
    failed = fresh.snakemake("--cores", "1", "results/data/traces.parquet")
    assert failed.returncode != 0
    assert "broken.jsonl" in (fresh / "results/logs/prepare/traces.log").read_text()
    assert "error: broken.jsonl" in failed.stdout.replace("\n", " ")
