import csv
import io

from stages.reporting import markdown, tables
from stages.reporting.choice import choose
from stages.reporting.contents import Experiment
from stages.reporting.runs import Run, configurations, ranked
from tests.reporting.build import train, validation
from tests.reporting.test_runs import SWEEP, run


def test_a_run_in_numbers():
    scores = [(0, 0.1), (5, 0.7), (10, 0.4), (15, 0.7)]
    rows = tuple(validation(step, answer, token_entropy=float(step), length=20.0) for step, answer in scores)
    trained = tuple(train(step, 0.5, token_entropy=99.0, gradient_norm=float(step)) for step in (1, 2, 3, 4))
    row = tables.run_row(Run("p", {"seed": 3}, steps=15, validation=rows, train=trained), [])
    assert (row["start_answer_reward"], row["best_answer_reward"], row["best_step"]) == (0.1, 0.7, 5)
    assert round(row["final_answer_reward"], 12) == 0.6
    assert (row["token_entropy"], row["length"]) == (10.0, 20.0), "of validations, whatever training says of its own"
    assert row["gradient_norm"] == 3.0


def test_a_column_that_only_validations_have():
    rows = (validation(0, 0.1, length=30.0),)
    trained = ({"step": 1, "length": None, "gradient_norm": 2.0},)
    row = tables.run_row(Run("p", {}, validation=rows, train=trained), [])
    assert (row["length"], row["gradient_norm"], row["length_correct"]) == (30.0, 2.0, None)


def test_a_run_without_validation_has_empty_cells_not_zeros():
    row = tables.run_row(Run("p", {}, status="diverged"), [])
    assert row["final_answer_reward"] is None
    assert row["best_answer_reward"] is None


def test_csv_holds_runs_and_their_aggregates_over_seeds():
    order = ranked(configurations([run(1e-3, 0, 0.2), run(1e-3, 1, 0.6), run(3e-4, 0, 0.9)], SWEEP))
    text = tables.write_csv(tables.run_rows(order) + tables.seed_rows(order))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["row"] for row in rows] == ["run"] * 3 + ["mean", "min", "max"] * 2
    assert [row["final_answer_reward"] for row in rows[-3:]] == ["0.4", "0.2", "0.6"]
    assert rows[-1]["seed"] == "0 1"
    assert [row["learning_rate"] for row in rows[:3]] == ["0.0003", "0.001", "0.001"]


def test_markdown_cells_cannot_leave_their_cell():
    text = tables.write_markdown(["a|b"], [["x|y\nz<b>`*[l](u)"]])
    assert text.splitlines() == ["| a\\|b |", "| --- |", "| x\\|y z&lt;b>\\`\\*\\[l](u) |"]


def test_tables_name_only_what_varies_and_show_ranges_of_several_seeds():
    experiment = {"grid": {"learning_rate": [], "loss_type": ["x"]}}
    measured = (run(1e-3, 0, 0.2), run(1e-3, 1, 0.6), run(3e-4, 0, 0.9))
    runs = [Run(one.path, {**one.values, "loss_type": "x"}, validation=one.validation) for one in measured]
    header, rows = tables.configuration_table(ranked(configurations(runs, experiment)))
    assert header[:3] == ["learning_rate", "seeds", "status"]
    assert rows[0][:2] == ["3e-4", "0"]
    assert rows[1][header.index("final reward")] == "0.400 (0.200–0.600)"
    assert rows[1][header.index("entropy (nats)")] == "–"


def test_the_summary_says_the_result_and_shows_it():
    runs = [run(1e-3, 0, 0.2), run(3e-4, 0, 0.9, status="diverged", reason="nan")]
    choice = choose(configurations(runs, SWEEP), SWEEP)
    text = markdown.experiment(Experiment("sweep", "grpo", "Why?", choice), level=2)
    assert text.startswith("## sweep\n\nWhy?\n\nBest: learning_rate = 1e-3")
    assert "### Runs" in text
    assert "diverged: nan" in text
