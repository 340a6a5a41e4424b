"""Experiments beside each other, from their run folders through every program to the page."""

import re

import pytest

from stages import report, select, summarize
from stages.store import write_json
from tests.reporting.build import read_json, train, validation, write_run

BASIC = {"prompt": "r1_zero", "reward": "r1_zero", "validation": "held_out", "seed": 0}
ON_POLICY = {"train_batch_size": 8, "rollout_batch_size": 8, "epochs_per_rollout_batch": 1}
BUDGET = {
    "max_seconds": 30.0,
    "num_validation_examples": "full",
    "sampling_temperature": 1.0,
    "sampling_max_tokens": 40,
}

OFF_POLICY = ON_POLICY | {"epochs_per_rollout_batch": 2}


def curve(gain, loss, **more):
    """Validation at steps 0, 5, … 20 (2 s a step): reward 0.2 + gain * step, entropy 1 - loss * step."""
    rows = [validation(step, 0.2 + gain * step, token_entropy=1 - loss * step, **more) for step in range(0, 21, 5)]
    return sorted([*rows, *(train(step, 0.5, **more) for step in range(1, 21))], key=lambda row: row["step"])


def run_of(folder, name, values, rows, rounds=()):
    """A run folder, and how the specification lists it."""
    path = write_run(folder / "runs" / name / "seed=0", BASIC | values, rows)
    if rounds:
        write_json(path / "status.json", read_json(path / "status.json") | {"rounds": list(rounds)})
    return {"seed=0": str(path)}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Expert iteration, an on-policy run, and one with a budget that is compared with both."""
    folder = tmp_path_factory.mktemp("comparisons")
    counts = {"responses": 40, "questions": 10, "correct": 12, "solved": 7, "duplicates": 2, "kept": 10}
    told = [counts | {"answer_reward": score} for score in (0.3, 0.4)]
    runs = {
        "iterated": run_of(folder, "iterated", {}, curve(0.01, 0.02, round=1), told),
        "on_policy": run_of(folder, "on_policy", ON_POLICY, curve(0.02, 0.01)),
        "board": run_of(folder, "board", BUDGET | OFF_POLICY, curve(0.03, 0.03)),
    }
    stages = dict.fromkeys(runs, "grpo") | {"iterated": "expert_iteration"}
    compared = {"board": ("iterated", "on_policy")}
    configs, shown = {}, {}
    for name, own in runs.items():
        plan = {"stage": stages[name], "grid": {}, "cases": [{}]}
        configs[name] = plan | {"winner": str(folder / f"winners/{name}.json"), "runs": own}
        references = {other: configs[other] for other in compared.get(name, ())}
        planned = {path: {} for path in own}
        spec = {"stage": "summarize", "name": name, "experiment": plan, "runs": planned, "references": references}
        write_json(folder / f"{name}.spec.json", spec)
        select.select(own.values(), folder / f"{name}.spec.json", folder / f"winners/{name}.json")
        winner = folder / f"winners/{name}.json"
        summarize.summarize(own.values(), folder / f"{name}.spec.json", winner, folder / name)
        shown[name] = configs[name] | {"summary": str(folder / name), "references": references}
    spec = {"preset": "p", "model": {"path": "m"}, "evaluations": {}, "experiments": shown}
    write_json(folder / "report.spec.json", spec)
    report.report(folder / "report.spec.json", folder / "report.html", folder / "report.md")
    return folder


def said(results, name):
    return (results / name).read_text(encoding="utf-8")


def test_a_budget_adds_the_row_and_its_curve(results):
    names = {file.name for file in (results / "board").iterdir()}
    assert {"leaderboard.md", "leaderboard.svg", "leaderboard.png"} <= names
    assert "leaderboard.md" not in {file.name for file in (results / "on_policy").iterdir()}
    # 30 s allow 15 steps: 0.2 + 0.03 * 15
    assert "| 65.00 % | board | [curve](leaderboard.png) |" in said(results, "board/leaderboard.md")


def test_table_page_and_markdown_read_the_runs_alike(results):
    sentences = (
        "Beside the on-policy reference: on_policy: final answer reward 0.500 here, 0.500 there (level); after 20 "
        "optimiser steps the curves stand at 0.800 here, 0.600 there (0.200 ahead); after 40 s the curves stand at "
        "0.800 here, 0.600 there (0.200 ahead).",
        "Above the start (0.200) after every one of 2 rounds: 0.300, 0.400. Token entropy fell from 1.000 to 0.600 "
        "nats (first to last).",
        "Gradient norm before clipping, mean over the run: 0.500.",
        "sampling_max_tokens is 40, the board's is 1024",
    )
    page = said(results, "report.html").replace("&#39;", "'")
    for sentence in sentences:
        assert sentence in page
        assert sentence in said(results, "report.md")
    assert sentences[0] in said(results, "board/table.md")
    assert "| on-policy reference: on_policy | 0 | finished |" in said(results, "board/table.md")
    assert page.count('<tr class="reference">') == 2 * 2  # two references in each of the two tables


def test_references_are_in_the_csv_and_decide_nothing(results):
    rows = said(results, "board/table.csv").splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == [
        *("run", "mean", "min", "max"),
        *("reference run", "reference mean", "reference min", "reference max") * 2,
    ]
    assert read_json(results / "board/winner.json")["run"] == "seed=0"
    assert read_json(results / "board/winner.json")["score"] == pytest.approx(0.2 + 0.03 * 10)  # 5, 10, 15 steps


def test_rounds_are_in_the_table_and_on_the_page(results):
    assert "| 0 | 2 | 40 | 10 | 12 (30 %) | 7 | 2 | 10 | 0.400 |" in said(results, "iterated/table.md")
    assert "What each round of the best configuration sampled and kept" in said(results, "report.html")


def test_methods_are_compared_where_there_are_two(results, tmp_path):
    text = said(results, "report.md")
    # nats per 0.1 gained: 0.02 / 0.01, 0.01 / 0.02 and 0.03 / 0.03, each times 0.1
    assert "on_policy (on-policy GRPO) spent the least entropy, 0.050 nats, and iterated" in text
    assert "iterated (expert iteration) the most, 0.200. board (off-policy GRPO) ended with the least" in text
    assert re.search(r"\| iterated \| expert iteration \| 1\.000 to 0\.600 \| 0\.200 to 0\.400 \| 0\.200 \|", text)
    alone = read_json(results / "report.spec.json")
    alone["experiments"] = {"iterated": alone["experiments"]["iterated"]}
    write_json(tmp_path / "spec.json", alone)
    report.report(tmp_path / "spec.json", tmp_path / "r.html", tmp_path / "r.md")
    assert "How each method spends entropy" not in (tmp_path / "r.html").read_text(encoding="utf-8")
