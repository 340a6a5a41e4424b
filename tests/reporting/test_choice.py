"""What is passed on: the default unless beaten, whatever luck says; and simulated experiments whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.coverage import coverage, others_chosen
from stages import select, summarize
from stages.records import ROLLOUTS, table, write_table
from stages.reporting import wording
from stages.reporting.choice import choose, confidence
from stages.reporting.comparison import compare, interval
from stages.reporting.runs import Run, configurations, read_answers
from stages.reporting.statistics import of_score, wilson
from stages.store import write_json
from tests.reporting.build import read_json, rollout, validation, write_run
from tests.reporting.test_runs import SWEEP, run


def chosen(*runs, **plan):
    return choose(configurations(runs, {**SWEEP, **plan}), {**SWEEP, **plan})


def arms(*rates):
    return [[f"lr={rate}/seed=0"] for rate in rates]


def test_a_lead_that_luck_could_give_keeps_the_default():
    choice = chosen(run(1e-3, 0, 0.55), run(3e-4, 0, 0.5), arms=arms(3e-4, 1e-3))
    assert choice.winner.values == {"learning_rate": 3e-4}
    assert (choice.best.values, choice.decided) == ({"learning_rate": 1e-3}, False)
    assert chosen(run(1e-3, 0, 0.55), run(3e-4, 0, 0.5), arms=arms(1e-3, 3e-4)).winner is not choice.winner


def test_a_large_lead_is_passed_on():
    choice = chosen(run(1e-3, 0, 0.8), run(3e-4, 0, 0.2), arms=arms(3e-4, 1e-3))
    assert (choice.winner.values, choice.decided) == ({"learning_rate": 1e-3}, True)
    assert [one.score for one in choice.order] == [0.8, 0.2]


def test_a_default_that_did_not_finish_holds_nothing():
    choice = chosen(run(3e-4, 0, 0.9, status="diverged"), run(1e-3, 0, 0.2), arms=arms(3e-4, 1e-3))
    assert choice.winner.values == {"learning_rate": 1e-3}
    assert "The default, learning_rate = 3e-4, did not finish, so learning_rate = 1e-3 stands in" in wording.outcome(
        choice
    )


def test_of_two_that_beat_the_default_the_earlier_stays_unless_beaten_itself():
    runs = [run(1e-4, 0, 0.1), run(3e-4, 0, 0.8), run(1e-3, 0, 0.82)]
    choice = chosen(*runs, arms=arms(1e-4, 3e-4, 1e-3))
    assert choice.winner.values == {"learning_rate": 3e-4}
    assert "Undecided, so the earlier one stays: learning_rate = 3e-4." in wording.outcome(choice)
    assert chosen(*runs, arms=arms(1e-4, 1e-3, 3e-4)).winner.values == {"learning_rate": 1e-3}


def test_seed_noise_is_what_the_plan_says():
    runs = [run(1e-3, 0, 0.85), run(3e-4, 0, 0.6)]
    assert chosen(*runs, arms=arms(3e-4, 1e-3), seed_noise=0.0).winner.values == {"learning_rate": 1e-3}
    assert chosen(*runs, arms=arms(3e-4, 1e-3), seed_noise=0.2).winner.values == {"learning_rate": 3e-4}


def tuned(loss, rate, score):
    values = {"loss_type": loss, "learning_rate": rate, "seed": 0}
    return Run(f"loss_type={loss}/learning_rate={rate}/seed=0", values, validation=(validation(1, score),))


def test_tuned_arms_are_compared_at_their_best():
    """At 1e-4 the one would win by far, at 1e-3 the other; each at its own best, they are level."""
    plan = {"grid": {"loss_type": ["x", "y"]}, "tune": {"learning_rate": [1e-4, 1e-3]}}
    runs = [tuned("x", 1e-4, 0.8), tuned("x", 1e-3, 0.1), tuned("y", 1e-4, 0.2), tuned("y", 1e-3, 0.81)]
    plan["arms"] = [[one.path for one in runs[:2]], [one.path for one in runs[2:]]]
    choice = choose(configurations(runs, plan), plan)
    assert choice.winner.values == {"loss_type": "x", "learning_rate": 1e-4}
    assert [one.score for one in choice.order] == [0.8, 0.81, 0.2, 0.1]
    assert len(choice.arms) == 2
    told = wording.outcome(choice)
    assert told.startswith("Best: learning_rate = 1e-3, loss_type = y, with")
    assert "Each arm stands at its own best learning_rate, chosen on this very validation set." in told


def test_answers_are_those_of_the_validations_that_the_score_is_of(tmp_path):
    def right(name, step, *verdicts):
        return [rollout(name, step, verdict, sample_index=index) for index, verdict in enumerate(verdicts)]

    rows = [*right("a", 0, "wrong"), *right("b", 0, "wrong"), *right("a", 5, "correct"), *right("b", 5, "wrong")]
    rows += [*right("a", 9, "correct"), *right("b", 9, "correct")]
    write_table(tmp_path / "g.parquet", table(rows, ROLLOUTS))
    assert read_answers(tmp_path / "g.parquet", [5, 9]) == {"a": 1.0, "b": 0.5}
    assert read_answers(tmp_path / "g.parquet", [5, 7]) == {}  # a step is missing, so these are not the score's
    write_table(tmp_path / "g.parquet", table(rows[:-1], ROLLOUTS))
    assert read_answers(tmp_path / "g.parquet", [5, 9]) == {}  # one question was asked less often
    write_table(tmp_path / "g.parquet", table([*rows[:-1], *right("b", 9, None)], ROLLOUTS))
    assert read_answers(tmp_path / "g.parquet", [5, 9]) == {}  # one answer is not graded


def test_the_interval_of_a_run_is_of_its_questions():
    (one,) = configurations([replace(run(1e-3, 0, 0.5), answers={"a": 1.0, "b": 0.0}, answered=3)], SWEEP)
    assert interval(one) == of_score([1.0, 0.0], 6)
    (one,) = configurations([run(1e-3, 0, 0.5)], SWEEP)
    assert interval(one) == wilson(50, 100)


def test_other_questions_are_not_paired():
    one, other = (
        configurations([replace(run(rate, 0, 0.5), answers={name: 1.0, "z": 0.0})], SWEEP)[0]
        for rate, name in ((1e-3, "a"), (3e-4, "b"))
    )
    assert not compare(one, other).paired
    assert compare(one, one).paired


@pytest.mark.parametrize(("rivals", "level"), [(0, 0.95), (1, 0.95), (2, 0.95), (5, 0.98)])
def test_more_comparisons_ask_for_more(rivals, level):
    """Each misleads on one side alone: (1 - level) / 2 of the time, for each rival, is at most 0.05."""
    assert confidence(rivals) == pytest.approx(level)


def test_every_value_that_a_rival_was_tuned_over_asks_for_more():
    """A default whose other values fail meets the best of five: that it is ahead by luck takes one of five."""
    plan = {"grid": {"loss_type": ["x", "y"]}, "tune": {"learning_rate": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]}}
    runs = [tuned(loss, rate, 0.5) for loss in "xy" for rate in plan["tune"]["learning_rate"]]
    plan["arms"] = [[one.path for one in runs[:5]], [one.path for one in runs[5:]]]
    choice = choose(configurations(runs, plan), plan)
    assert (choice.rivals, choice.level) == (5, pytest.approx(0.98))
    plan["arms"].reverse()  # one of them has no runs but one
    assert choose(configurations(runs[:6], plan), plan).rivals == 1 + 4 * 1


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_intervals_hold_known_differences_as_often_as_they_state(seeds):
    assert coverage(np.random.default_rng(seeds), seeds, experiments=300, seed_noise=0.05) >= 0.93


@pytest.mark.parametrize(("arms", "seeds"), [(2, 1), (2, 2), (2, 3), (6, 1), (6, 3)])
def test_of_arms_that_are_alike_the_default_is_passed_on(arms, seeds):
    drawn = np.random.default_rng(10 * arms + seeds)
    assert others_chosen(drawn, arms, seeds, experiments=200, seed_noise=0.02, assumed=0.02) <= 0.05


def answered(folder, rate, *right):
    """A run's folder: of ten questions, these are right in each of three validations."""
    verdicts = {name: "correct" if name in right else "wrong" for name in range(10)}
    rows = [rollout(str(name), step, verdict) for step in (1, 2, 3) for name, verdict in verdicts.items()]
    metrics = [validation(step, len(right) / 10, num_examples=10) for step in (0, 1, 2, 3)]
    return write_run(folder / f"learning_rate={rate}/seed=0", {"learning_rate": rate, "seed": 0}, metrics, rows)


def test_pairs_from_files(tmp_path):
    """Through the programs, eight questions to none: one file says what is inherited, the other why."""
    folders = [answered(tmp_path, 1e-4, 0), answered(tmp_path, 1e-3, *range(9))]
    planned = {"/".join(folder.parts[-2:]): {} for folder in folders}
    plan = {"stage": "grpo", **SWEEP, "arms": [[path] for path in planned]}
    write_json(tmp_path / "spec.json", {"name": "rates", "experiment": plan, "runs": planned})
    select.select(folders, tmp_path / "spec.json", tmp_path / "winner.json")
    assert read_json(tmp_path / "winner.json")["values"] == {"learning_rate": 1e-3}
    summarize.summarize(folders, tmp_path / "spec.json", tmp_path / "winner.json", tmp_path / "out")
    facts = read_json(tmp_path / "out/winner.json")
    assert (facts["decided"], facts["default"]) == (True, {"learning_rate": 1e-4})
    # deviation sqrt((8 - 10 * 0.8²) / 9) = 0.4216, over sqrt(10) 0.1333, times 2.365 (t of seven): 0.315
    told = "On the same 10 questions these two checkpoints differ by 0.800 (95 % interval 0.485 to 1.115, in pairs)"
    assert told in facts["sentence"]
    assert told in (tmp_path / "out/table.md").read_text(encoding="utf-8")
