import math

import pytest

from stages import select
from stages.records import DataError
from stages.reporting.runs import Run, by_value, configurations, final, ranked, read_runs, swept_keys
from tests.reporting.build import read_json, validation, write_experiment, write_run

SWEEP = {"grid": {"learning_rate": [1e-3, 3e-4]}, "cases": []}


def run(rate, seed, *answers, **more):
    rows = tuple(validation(step, answer) for step, answer in enumerate(answers))
    return Run(path=f"lr={rate}/seed={seed}", values={"learning_rate": rate, "seed": seed}, validation=rows, **more)


def test_the_final_value_is_the_mean_of_the_last_three_rows_that_have_one():
    rows = [{"x": 9.0}, {"x": 1.0}, {"x": None}, {"x": 2.0}, {"x": 6.0}, {}]
    assert final(rows, "x") == 3.0
    assert final([{"x": 4.0}], "x") == 4.0
    assert final([{"x": None}], "x") is None
    assert final([{"x": 1.0}, {"x": 3.0}, {"x": math.nan}, {"x": math.inf}], "x") == 2.0


def test_seeds_are_averaged_not_picked():
    steady = [run(3e-4, 0, 0.5), run(3e-4, 1, 0.5)]
    lucky = [run(1e-3, 0, 0.7), run(1e-3, 1, 0.1)]
    order = ranked(configurations(lucky + steady, SWEEP))
    assert order[0].values == {"learning_rate": 3e-4}
    assert [one.score for one in order] == [0.5, pytest.approx(0.4)]


def test_a_tie_goes_to_the_smaller_path_even_when_the_sums_round_differently():
    first = [run(1e-3, seed, answer) for seed, answer in enumerate((0.1, 0.2, 0.3))]
    second = [run(3e-4, seed, answer) for seed, answer in enumerate((0.3, 0.2, 0.1))]
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1  # as sum() rounds before Python 3.12
    for runs in (first + second, second + first):
        assert ranked(configurations(runs, SWEEP))[0].path == "lr=0.0003/seed=0"


def test_a_broken_configuration_wins_only_where_nothing_finished():
    broken = run(1e-3, 0, 0.9, status="diverged")
    assert ranked(configurations([broken, run(3e-4, 0, 0.2)], SWEEP))[0].values == {"learning_rate": 3e-4}
    other = run(3e-4, 0, 0.2, status="diverged")
    assert ranked(configurations([broken, other], SWEEP))[0].values == {"learning_rate": 1e-3}


def test_a_seed_that_never_validated_counts_as_zero():
    (one,) = configurations([run(1e-3, 0, 0.8), run(1e-3, 1, status="diverged")], SWEEP)
    assert one.scores == [0.8, 0.0]


def test_swept_keys_come_from_grid_and_cases_without_the_seed():
    experiment = {"grid": {"b": [1], "seed": [0, 1]}, "cases": [{"a": 1}, {"c": 2}]}
    assert swept_keys(experiment) == ["a", "b", "c"]
    assert swept_keys({"grid": None, "cases": None}) == []


def test_values_are_ordered_as_numbers_then_names():
    runs = [Run(path=str(v), values={"n": v}) for v in ("full", 1024, 64, 256)]
    assert [one.values["n"] for one in by_value(configurations(runs, {"grid": {"n": []}}))] == [64, 256, 1024, "full"]


def test_resolved_values_go_before_planned_ones(tmp_path):
    write_run(tmp_path / "runs/a/seed=0", {"learning_rate": 5e-4, "seed": 0}, [validation(0, 0.1)])
    (found,) = read_runs({"a/seed=0": {"learning_rate": None, "loss_type": "x"}}, [tmp_path / "runs/a/seed=0"])
    assert found.values == {"learning_rate": 5e-4, "loss_type": "x", "seed": 0}


def test_folders_must_be_those_of_the_specification(tmp_path):
    folder = write_run(tmp_path / "a/seed=0", {"seed": 0}, [validation(0, 0.1)])
    with pytest.raises(DataError, match="is no run of the specification"):
        read_runs({"b/seed=0": {}}, [folder])
    with pytest.raises(DataError, match=r"no folder given for run c/seed=0 \(1 missing\)"):
        read_runs({"a/seed=0": {}, "c/seed=0": {}}, [folder])
    (folder / "status.json").unlink()
    with pytest.raises(DataError, match=r"status\.json: no such file"):
        read_runs({"a/seed=0": {}}, [folder])


def test_a_run_path_may_end_in_another(tmp_path):
    values = {"a=1/seed=0": {"b": None}, "b=2/a=1/seed=0": {"b": 2}}
    folders = [write_run(tmp_path / path, {"seed": 0} | value, [validation(0, 0.1)]) for path, value in values.items()]
    assert [run.values["b"] for run in read_runs(values, folders)] == [None, 2]


def test_the_winner_file_keeps_its_bytes_when_only_scores_change(tmp_path):
    spec, folders = write_experiment(tmp_path)
    select.select(folders, spec, tmp_path / "first.json")
    write_run(folders[2], {"learning_rate": 3e-4, "seed": 0}, [validation(0, 0.2), validation(5, 0.99)])
    select.select(folders, spec, tmp_path / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert read_json(tmp_path / "first.json") == {
        "experiment": "lr_sweep",
        "run": "lr_sweep/learning_rate=0.0003/seed=0",
        "values": {"learning_rate": 3e-4},
    }


def test_a_short_run_is_not_judged_by_what_it_was_before_training():
    rows = tuple({"step": step, "answer_reward": value} for step, value in ((0, 0.2), (20, 0.7), (30, 0.8)))
    assert Run("p", {}, validation=rows).score == pytest.approx(0.75)
    assert Run("p", {}, validation=rows[:1]).score == 0.2  # nothing else is there


def test_of_a_run_with_a_budget_of_seconds_what_ended_after_it_does_not_count():
    reached = [(1, 60.0, 0.5), (2, 120.0, 0.7), (3, 181.0, 0.9)]
    rows = tuple({"step": step, "seconds": seconds, "answer_reward": answer} for step, seconds, answer in reached)
    assert Run("p", {"max_seconds": 180.0}, validation=rows).score == pytest.approx(0.6)
    assert Run("p", {"max_seconds": 30.0}, validation=rows).score == pytest.approx(0.7)  # nothing else is there
    assert Run("p", {"max_seconds": None}, validation=rows).score == pytest.approx(0.7)
