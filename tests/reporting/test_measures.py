"""Instruction tuning is judged by its last loss and DPO by its best accuracy: rankings, tables, curves and words."""

from __future__ import annotations

import json

import pytest

from stages import report, summarize
from stages.records import METRICS, ROLLOUTS, table, write_table
from stages.reporting import markdown, tables, wording
from stages.reporting.choice import choose
from stages.reporting.contents import Experiment
from stages.reporting.lines import diagnostic_panels, validation_panels
from stages.reporting.measures import ANSWERS, LOSS, PREFERENCES
from stages.reporting.references import Reference, against
from stages.reporting.runs import Run, configurations, ranked, read_run
from stages.reporting.transcripts import stories
from tests.reporting.build import rollout


def tuned(rate: float, *losses: float, seed: int = 0) -> Run:
    rows = tuple(
        {"step": 5 * at, "kind": "validation", "seconds": 1.0 * at, "num_examples": 9, "loss": loss, "perplexity": 2.0}
        for at, loss in enumerate(losses)
    )
    train = ({"step": 1, "kind": "train", "seconds": 1.0, "loss": 3.0, "gradient_norm": 0.5},)
    values = {"rate": rate, "seed": seed}
    return Run(f"rate={rate}/seed={seed}", values, steps=10, train=train, validation=rows, measure=LOSS)


def preferred(beta: float, *accuracies: float, pairs: int = 1000) -> Run:
    rows = tuple(
        {"step": 5 * at, "kind": "validation", "seconds": 1.0 * at, "num_examples": pairs, "preference_accuracy": one}
        for at, one in enumerate(accuracies)
    )
    train = ({"step": 1, "kind": "train", "seconds": 1.0, "loss": 0.6, "reward_margin": 0.25, "gradient_norm": 2.0},)
    return Run(f"beta={beta}/seed=0", {"beta": beta, "seed": 0}, train=train, validation=rows, measure=PREFERENCES)


def order(*runs: Run):
    key = next(iter(runs[0].values))
    return ranked(configurations(runs, {"grid": {key: []}}))


def chosen(*runs: Run):
    plan = {"grid": {next(iter(runs[0].values)): []}}
    return choose(configurations(runs, plan), plan)


def test_the_lowest_last_loss_wins():
    found = chosen(tuned(0.1, 9.0, 1.0, 3.0), tuned(0.2, 9.0, 8.0, 2.0))
    assert [one.score for one in found.order] == [2.0, 3.0]
    assert wording.outcome(found) == (
        "Best: rate = 0.2, with a final validation loss of 2.000 (seed 0 alone), from 9.000 before training. "
        "It leads rate = 0.1 (3.000) by 1.000. One seed each says nothing about the settings. Decided: rate = 0.2 is "
        "passed on, ahead of the default, rate = 0.1, by 1.000 (95 % interval 0.945 to 1.055, if seeds differ by a "
        "standard deviation of 0.02, as seed_noise has it)."
    )


def test_seeds_of_a_loss_are_compared_downwards():
    found = chosen(*(tuned(rate, 9.0, rate + seed, seed=seed) for rate in (5.0, 1.0) for seed in (0, 1)))
    assert found.winner.values == {"rate": 1.0}
    assert "see a lead of 4.000 to 4.000 (95 % interval, paired by seed), which is more than chance" in wording.outcome(
        found
    )


def test_a_run_that_never_validated_is_worst():
    silent = Run("rate=0.3/seed=0", {"rate": 0.3, "seed": 0}, measure=LOSS)
    assert order(silent, tuned(0.1, 9.0, 8.0))[0].values == {"rate": 0.1}


def test_dpo_is_judged_by_the_checkpoint_that_is_kept():
    choice = chosen(preferred(0.1, 0.5, 0.9, 0.6), preferred(0.2, 0.5, 0.7, 0.8))
    found = choice.order
    assert [one.score for one in found] == [0.9, 0.8]
    told = wording.outcome(choice)
    assert told.startswith("Best: beta = 0.1, with a best validation preference accuracy of 0.900 (seed 0 alone)")
    assert (
        "With 1000 pairs each, not paired, these two checkpoints differ by 0.100 (95 % interval 0.069 to 0.131)" in told
    )
    (row, *_) = tables.run_rows(found)
    assert (row["best_preference_accuracy"], row["best_step"]) == (0.9, 5)
    assert row["final_preference_accuracy"] == pytest.approx((0.9 + 0.6) / 2)
    assert row["reward_margin"] == 0.25


def test_tables_and_curves_show_what_the_stage_measures():
    instruct, dpo = order(tuned(0.1, 9.0, 3.0)), order(preferred(0.1, 0.5, 0.9))
    header, rows = tables.configuration_table(instruct)
    assert header[3:] == ["steps", "seconds", "loss before", "final loss", "best loss", "perplexity", "gradient norm"]
    assert rows[0][5:] == ["9.000", "3.000", "3.000", "2.000", "0.500"]
    assert [panel.title for panel in validation_panels(instruct)] == [
        "Validation loss",
        "Validation loss, by wall-clock",
    ]
    assert validation_panels(dpo)[0].title == "Validation preference accuracy"
    titles = [panel.title for panel in diagnostic_panels(dpo)]
    assert titles == ["Gradient norm, unclipped", "Training loss (nats)", "Implicit reward margin (nats)"]
    text = markdown.experiment(Experiment("tuning", "instruct", "", chosen(tuned(0.1, 9.0, 3.0))))
    assert "range of the final loss in brackets" in text
    assert LOSS.legend in text
    assert "eward" not in text


def test_the_loss_of_policy_gradient_is_not_drawn():
    row = {"step": 1, "kind": "train", "seconds": 1.0, "loss": 0.1, "gradient_norm": 1.0}
    found = configurations([Run("p", {}, train=(row,))], {})
    assert [panel.column for panel in diagnostic_panels(found)] == ["gradient_norm"]


def test_a_reference_with_a_lower_loss_is_ahead():
    here, there = order(tuned(0.1, 9.0, 3.0))[0], order(tuned(0.2, 9.0, 2.0))[0]
    told = against(here, Reference("other", "instruct", (), there))
    assert "final loss 3.000 here, 2.000 there (1.000 behind)" in told


def test_ungraded_answers_are_followed_without_a_verdict():
    rows = [rollout("q0", step, None) for step in (0, 5)]
    found = stories(rows)
    assert found.counts == {"ungraded": 1}
    assert [story.fate for story in found.chosen] == ["ungraded"]


def test_a_summary_from_files(tmp_path):
    """Through the programs: the stage of a run is read from its metrics file."""
    folder = tmp_path / "rate=0.1/seed=0"
    rows = [*tuned(0.1, 9.0, 3.0).validation, *tuned(0.1).train]
    write_table(folder / "metrics.parquet", table(rows, METRICS), {"spec": {"stage": "instruct"}})
    answers = [rollout("q0", step, None) for step in (0, 5)]
    write_table(folder / "generations.parquet", table(answers, ROLLOUTS))
    status = {"status": "finished", "reason": "", "steps": 5, "seconds": 1.0, "values": {"rate": 0.1, "seed": 0}}
    (folder / "status.json").write_text(json.dumps(status))
    assert read_run(folder, "a").measure == LOSS
    plan = {"stage": "instruct", "grid": {"rate": [0.1]}, "cases": [{}]}
    spec = {"name": "tuning", "experiment": plan, "runs": {"rate=0.1/seed=0": {}}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "winner.json").write_text(json.dumps({"values": {"rate": 0.1}}))
    summarize.summarize([folder], tmp_path / "spec.json", tmp_path / "winner.json", tmp_path / "out")
    facts = json.loads((tmp_path / "out/winner.json").read_text())
    assert (facts["metric"], facts["score"]) == ("loss", 3.0)
    assert "Ungraded" in (tmp_path / "out/transcripts.md").read_text()
    shown = {**plan, "summary": str(tmp_path / "out"), "runs": {"rate=0.1/seed=0": str(folder)}}
    page = report.collect({"preset": "p", "model": {"path": "m"}, "experiments": {"tuning": shown}})
    assert page.rungs == []
    assert page.legends == [LOSS.legend]
    assert ANSWERS.legend not in markdown.report(page)
