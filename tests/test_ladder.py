"""The whole workflow on its real stages, from an empty folder to the report, in one call."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from stages.policy.loading import load_policy
from stages.policy.preference import all_log_probs, encode_pair
from stages.records import EXAMPLES, JUDGEMENTS, METRICS, PREFERENCES, ROLLOUTS, provenance_of, read_table
from tests.workflow.conftest import ROOT, Tree

RUNS = {
    "imitation": ["train=traces/seed=0", "train=traces_correct/seed=0"],
    "rounds": ["seed=0"],
    "rates": ["learning_rate=0.001/seed=0"],
    "tuning": ["train=instructions/validation=instructions_held_out/seq_length=32/seed=0"],
    "preferring": ["seed=0"],
    "clipping": ["loss_type=grpo_clip/seed=0", "loss_type=grpo_no_clip/train=chosen/question_order=file/seed=0"],
}


@pytest.fixture(scope="module")
def ladder(tmp_path_factory) -> Tree:
    folder = tmp_path_factory.mktemp("ladder")
    for name in ("stages", "workflow", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", folder)
    shutil.copy(ROOT / "tests" / "ladder.yaml", folder / "config.yaml")
    tree = Tree(folder)
    tree.run("ladder", "all")
    return tree


def runs(tree: Tree) -> list[Path]:
    return [tree / f"results/runs/{name}/{run}" for name, names in RUNS.items() for run in names]


def test_every_run_left_what_the_readme_says(ladder):
    for folder in runs(ladder):
        status = json.loads((folder / "status.json").read_text())
        assert status["status"] == "finished"
        metrics = read_table(folder / "metrics.parquet", METRICS).to_pylist()
        assert metrics[0]["kind"] == "validation"
        assert metrics[0]["step"] == 0
        assert read_table(folder / "generations.parquet", ROLLOUTS).num_rows >= 6
        assert (folder / "model" / "model.safetensors").stat().st_size > 0
        spec = json.loads((folder / "spec.json").read_text())
        assert provenance_of(folder / "metrics.parquet")["code"] == spec["code"]


def test_every_rollout_is_kept_and_says_what_it_is(ladder):
    for run in RUNS["clipping"] + RUNS["rates"]:
        experiment = "clipping" if "loss_type" in run else "rates"
        folder = ladder / f"results/runs/{experiment}/{run}"
        rows = read_table(folder / "rollouts.parquet", ROLLOUTS).to_pylist()
        assert len(rows) == 2 * 8
        assert {row["run"] for row in rows} == {f"{experiment}/{run}"}
        assert all(math.isfinite(row["advantage"]) for row in rows)
        off_policy = experiment == "clipping"
        assert all((row["old_log_probs"] is not None) == off_policy for row in rows)
        train = [row for row in read_table(folder / "metrics.parquet", METRICS).to_pylist() if row["kind"] == "train"]
        assert len(train) == (4 if off_policy else 2)
        for row in train[: 2 if off_policy else 1]:
            gap = row["sampler_gap"]
            assert gap is None or gap < 0.5


def test_expert_iteration_that_finds_nothing_right_says_so(ladder):
    status = json.loads((ladder / "results/runs/rounds/seed=0/status.json").read_text())
    assert [one["kept"] for one in status["rounds"]] == [0, 0]
    assert status["reason"] == "no response survived in round 1, 2; the policy stayed as it was"
    assert (ladder / "results/runs/rounds/seed=0/model/model.safetensors").exists()


def test_the_filtered_dataset_is_the_right_part_of_the_whole(ladder):
    whole = read_table(ladder / "results/data/traces.parquet", EXAMPLES).to_pylist()
    kept = read_table(ladder / "results/data/traces_correct.parquet", EXAMPLES).to_pylist()
    assert kept == [row for row in whole if f"<answer> {row['ground_truth']} </answer>" in row["response"]]
    assert len(kept) == 12 - round(0.3 * 12)


def test_an_inherited_value_arrives(ladder):
    status = json.loads((ladder / "results/runs/clipping/loss_type=grpo_clip/seed=0/status.json").read_text())
    assert status["values"]["learning_rate"] == 1e-3


def test_questions_chosen_by_an_evaluation_are_trained_on_in_their_order(ladder):
    chosen = [row["example_id"] for row in read_table(ladder / "results/data/chosen.parquet", EXAMPLES).to_pylist()]
    assert len(chosen) == 5
    folder = ladder / "results/runs/clipping/loss_type=grpo_no_clip/train=chosen/question_order=file/seed=0"
    rows = read_table(folder / "rollouts.parquet", ROLLOUTS).to_pylist()
    assert [row["example_id"] for row in rows[::4]] == chosen[:4]


def test_a_page_shows_what_it_is_about(ladder):
    report, everything = ((ladder / f"results/{page}.md").read_text() for page in ("report", "ladder"))
    assert "## Evaluation: pass_rates" not in report
    assert "## Evaluation: pass_rates" in everything
    assert "## Experiment rounds" in everything
    assert "## Experiment rounds" not in report


def test_dpo_starts_from_the_tuned_policy_and_is_judged_by_its_accuracy(ladder):
    spec = json.loads((ladder / "results/runs/preferring/seed=0/spec.json").read_text())
    assert spec["model"] == "tuning"
    tuned, base = ladder / f"results/runs/tuning/{RUNS['tuning'][0]}", ladder / "results/models/base"
    metrics = read_table(ladder / "results/runs/preferring/seed=0/metrics.parquet", METRICS).to_pylist()
    assert metrics[0]["reward_margin"] == pytest.approx(0.0, abs=1e-4)
    started = {
        folder: log_prob_of_the_pairs(folder / "model" if folder == tuned else folder, ladder)
        for folder in (tuned, base)
    }
    assert metrics[0]["chosen_log_prob"] == pytest.approx(started[tuned], abs=1e-3)
    assert metrics[0]["chosen_log_prob"] != pytest.approx(started[base], abs=1e-2)
    winner = json.loads((ladder / "results/preferring/winner.json").read_text())
    assert winner["metric"] == "preference_accuracy"
    assert winner["score"] == max(row["preference_accuracy"] for row in metrics if row["kind"] == "validation")
    everything = (ladder / "results/ladder.md").read_text()
    assert "Best validation preference accuracy" in everything
    assert "Final validation loss" in everything


def test_an_evaluation_samples_from_a_winner_on_the_page_of_all_experiments_alone(ladder):
    rows = read_table(ladder / "results/evaluations/after_dpo/graded.parquet", ROLLOUTS).to_pylist()
    assert {row["model"] for row in rows} == {"preferring"}
    assert all(row["prompt"].endswith("### Response:\n") and row["verdict"] is not None for row in rows)
    report, everything = ((ladder / f"results/{page}.md").read_text() for page in ("report", "ladder"))
    assert "winner of preferring" in everything
    assert "after_dpo" not in report


def test_each_winner_and_the_base_policy_meet_the_test_set_once(ladder):
    winners = {"imitation", "rounds", "rates", "clipping"}  # what answers judge
    found = {path.name for path in (ladder / "results/evaluations").glob("test_*")}
    assert found == {f"test_{name}" for name in ("base", *winners)}
    for name in ("base", *winners):
        rows = read_table(ladder / f"results/evaluations/test_{name}/graded.parquet", ROLLOUTS).to_pylist()
        assert {row["model"] for row in rows} == {name}
        assert len(rows) == 5
    report, everything = ((ladder / f"results/{page}.md").read_text() for page in ("report", "ladder"))
    for text, shown in ((report, {"imitation", "rates", "clipping"}), (everything, winners)):
        assert "of the 5 questions of test right" in text.splitlines()[2]
        assert all((f"## Evaluation: test_{name}" in text) == (name in shown) for name in winners)
        assert text.count("On test, whose 5 questions chose nothing") == len(shown)
        assert text.count(r"The same 5 questions, asked of the base policy (test\_base)") == 0
        assert text.count("The same 5 questions, asked of the base policy (test_base)") == len(shown)


def test_a_judge_decides_about_responses_after_everything_else(ladder):
    rows = read_table(ladder / "results/judgements/itself/after_dpo/verdicts.parquet", JUDGEMENTS).to_pylist()
    assert len(rows) == 6
    assert {row["verdict"] for row in rows} == {"unparsed"}
    report, everything = ((ladder / f"results/{page}.md").read_text() for page in ("report", "ladder"))
    assert "| after_dpo | preferring | itself | share safe | – |" in everything
    assert "What judges say" not in report


def log_prob_of_the_pairs(model: Path, tree: Tree) -> float:
    """Mean log-prob of the chosen responses under a policy, as the validation of DPO measures it."""
    policy, tokenizer = load_policy(model)
    rows = read_table(tree / "results/data/preferences_held_out.parquet", PREFERENCES).to_pylist()
    pairs = [encode_pair(tokenizer, row["prompt"], row["chosen"], row["rejected"]) for row in rows]
    scored = all_log_probs(policy, pairs, 10_000, share=False)
    return sum(chosen for chosen, _ in scored) / len(scored)


def test_the_pages_open_offline(ladder):
    for page in ("report", "ladder"):
        html = (ladder / f"results/{page}.html").read_text()
        assert "<svg" in html
        assert "http://" not in html.replace("http://www.w3.org", "")
        assert "clipping" in (ladder / f"results/{page}.md").read_text()


def test_afterwards_there_is_nothing_to_do(ladder):
    planned = ladder.snakemake("-n", "ladder")
    assert planned.returncode == 0
    assert "Nothing to be done" in planned.stdout


def test_no_state_is_left_behind(ladder):
    left = {path for path in (ladder / "results").rglob("*") if path.is_file() and ".state" in str(path.parent)}
    left |= {path for path in (ladder / "results").rglob("state/*") if path.is_file()}
    assert {path.name for path in left} <= {"lock"}


def test_every_job_says_on_what_it_ran_and_the_report_adds_it_up(ladder: Tree):
    for folder in runs(ladder):
        status = json.loads((folder / "status.json").read_text())
        assert status["gpus"] >= 0
        assert status["cores"] >= 1
    text = (ladder / "results/ladder.md").read_text()
    assert "do not say on what they ran" not in text
    assert [line for line in text.splitlines() if line.startswith("| all |")], "the total of the section Spent"
