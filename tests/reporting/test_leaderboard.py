import pytest

from stages.reporting import leaderboard
from stages.reporting.lines import budget
from stages.reporting.runs import Configuration, Run, configurations, ranked
from tests.reporting.build import validation

OFFICIAL = {
    "max_seconds": 14400.0,
    "num_validation_examples": "full",
    "reward": "r1_zero",
    "prompt": "r1_zero",
    "sampling_temperature": 1.0,
    "sampling_max_tokens": 1024,
}


def order_of(*seeds, **changes):
    """One configuration; each seed is its list of (hours, answer reward)."""
    runs = []
    for seed, points in enumerate(seeds):
        rows = tuple(validation(at, score, seconds=3600.0 * hours) for at, (hours, score) in enumerate(points))
        runs.append(Run(f"seed={seed}", OFFICIAL | {"seed": seed} | changes, validation=rows))
    return ranked(configurations(runs, {}))


LATE = [(0.0, 0.1), (2.0, 0.4), (3.9, 0.625), (4.1, 0.9)]


def test_the_accuracy_is_that_of_the_last_validation_within_the_budget():
    one = leaderboard.entry("board", "Everything we know.", order_of(LATE))
    assert (one.accuracy, one.questions, one.step, one.seconds) == (0.625, 100, 2, 3.9 * 3600)
    assert one.faults == ()
    assert leaderboard.markdown(one).splitlines() == [
        "| accuracy | name | link to curve | description |",
        "| --- | --- | --- | --- |",
        "| 62.50 % | board | [curve](leaderboard.png) | Everything we know. |",
        "",
        "- Accuracy: answer reward on 100 validation examples (the full validation set) at the last validation that "
        "ended within the budget of 4.0 h: step 2, after 3.9 h; seed 0.",
        "- Sampling: temperature 1, at most 1024 tokens; prompt r1_zero, reward r1_zero.",
        "",
        "A valid row of the board.",
    ]


def test_seeds_are_averaged_and_named():
    one = leaderboard.entry("board", "", order_of(LATE, [(0.0, 0.1), (3.0, 0.375)]))
    assert one.accuracy == 0.5
    assert "mean of seeds 0 and 1." in leaderboard.facts(one)[0]


def test_the_winner_of_several_is_named_behind_the_description():
    runs = [order_of(LATE[:last], loss_type=loss)[0].runs[0] for last, loss in ((2, "grpo_clip"), (3, "gspo"))]
    order = ranked(configurations(runs, {"grid": {"loss_type": ["grpo_clip", "gspo"]}}))
    for description, row in (("Everything.", "Everything; loss_type = gspo"), ("", "loss_type = gspo")):
        assert leaderboard.entry("board", description, order).description == row


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"num_validation_examples": 100}, "the first 100 examples, not known to be all of them"),
        ({"reward": "question_only"}, "reward is question_only, the board's is r1_zero"),
        ({"sampling_temperature": 0.6}, "sampling_temperature is 0.6, the board's is 1"),
        ({"sampling_max_tokens": 40}, "sampling_max_tokens is 40, the board's is 1024"),
        ({"max_seconds": -1.0}, "a run had no validation that ended within the budget"),
    ],
)
def test_a_row_measured_otherwise_says_that_it_is_not_valid(changes, fault):
    one = leaderboard.entry("board", "How | it was done.", order_of(LATE, **changes))
    assert fault in leaderboard.verdict(one)
    text = leaderboard.markdown(one)
    assert "| NOT VALID. How \\| it was done. |" in text
    assert "**Not a valid row of the board: " in text


def test_fewer_examples_than_asked_for_are_all_there_are():
    one = leaderboard.entry("board", "", order_of(LATE, num_validation_examples=1024))
    assert one.faults == ()


def test_a_part_of_the_set_is_called_a_part():
    one = leaderboard.entry("board", "", order_of(LATE, num_validation_examples=100))
    assert "100 validation examples (a part)" in leaderboard.facts(one)[0]


def test_without_a_budget_there_is_no_row():
    assert leaderboard.entry("x", "", order_of(LATE, max_seconds=None)) is None
    rounds = Run("p", OFFICIAL, rounds=({"kept": 1, "answer_reward": 0.1},))
    assert budget([Configuration({}, (rounds,))]) is None  # that budget is of each round's fine-tuning


def test_the_axis_ends_at_the_budget():
    (axes,) = leaderboard.figure("board", order_of(LATE)[0], 14400.0).axes
    assert axes.get_xlim() == (0.0, 4.0)
    assert axes.get_xlabel() == "wall-clock, hours; the axis ends at the budget of 4.0 h"
