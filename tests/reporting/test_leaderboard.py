from dataclasses import replace

import pytest

from stages.reporting import leaderboard
from stages.reporting.board import CHECKED
from stages.reporting.lines import budget
from stages.reporting.runs import Configuration, Run, configurations, ranked
from stages.store import write_json
from tests.reporting.build import validation

OFFICIAL = {
    "max_seconds": 14400.0,
    "num_validation_examples": "full",
    "reward": "r1_zero",
    "prompt": "r1_zero",
    "sampling_temperature": 1.0,
    "sampling_max_tokens": 1024,
    "start_from": None,
    "train": "train",
    "validation": "validation",
}
MATH = {name: {"source": "math", "path": f"{name}.jsonl", "name": name} for name in ("train", "validation")}
CONTEXT = {"stage": "grpo", "model": {"hub": "Qwen/Qwen2.5-Math-1.5B", "revision": "4a83"}, "data": MATH}


def order_of(*seeds, questions=5000, gpus=2, **changes):
    """One configuration; each seed is its list of (hours, answer reward)."""
    runs = []
    for seed, points in enumerate(seeds):
        rows = tuple(
            validation(at, score, seconds=3600.0 * hours, num_examples=questions)
            for at, (hours, score) in enumerate(points)
        )
        values = OFFICIAL | {"seed": seed} | changes
        runs.append(Run(f"seed={seed}", values, validation=rows, hardware={"gpus": gpus}))
    return ranked(configurations(runs, {}))


LATE = [(0.0, 0.1), (2.0, 0.4), (3.9, 0.625), (4.1, 0.9)]


def test_the_accuracy_is_that_of_the_last_validation_within_the_budget():
    one = leaderboard.entry("board", "Everything we know.", order_of(LATE), CONTEXT)
    assert (one.accuracy, one.questions, one.step, one.seconds) == (0.625, 5000, 2, 3.9 * 3600)
    assert one.faults == ()
    assert leaderboard.markdown(one).splitlines() == [
        "| accuracy | name | link to curve | description |",
        "| --- | --- | --- | --- |",
        "| 62.50 % | board | [curve](leaderboard.png) | Everything we know. |",
        "",
        "- Accuracy: answer reward on 5000 validation examples (the full validation set) at the last validation that "
        "ended within the budget of 4.0 h: step 2, after 3.9 h; seed 0.",
        "- Sampling: temperature 1, at most 1024 tokens; prompt r1_zero, reward r1_zero.",
        "",
        f"Nothing that was checked ({CHECKED}) keeps this row from the course's board. "
        "Not checked: that the rows of train and validation are MATH's own, and no question of validation stands in "
        "train; that the GPUs are H100s; what the course's own grader makes of the responses (key "
        "reference_grader of a config).",
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
        ({"questions": 512}, "validation was on 512 questions, the board's is on all 5000"),
        ({"reward": "question_only"}, "reward is question_only, the board's is r1_zero"),
        ({"prompt": "question_only"}, "prompt is question_only, the board's is r1_zero"),
        ({"sampling_temperature": 0.6}, "sampling_temperature is 0.6, the board's is 1"),
        ({"sampling_max_tokens": 40}, "sampling_max_tokens is 40, the board's is 1024"),
        ({"max_seconds": -1.0}, "a run had no validation that ended within the budget"),
        ({"max_seconds": 28800.0}, "the budget is 8.0 h, the board's is 4.0 h"),
        ({"gpus": 4}, "a run had 4 GPUs, the board's have 2"),
        ({"start_from": "sft_sizes"}, "training starts from the winner of sft_sizes, the board's from Qwen/"),
        ({"train": "word_problems"}, "train is gsm8k_train (source gsm8k), the board's is of MATH"),
        ({"validation": "word_problems"}, "validation is gsm8k_train (source gsm8k), the board's is of MATH"),
    ],
)
def test_a_row_measured_otherwise_says_whose_board_it_is_of(changes, fault):
    data = MATH | {"word_problems": {"source": "gsm8k", "path": "x", "name": "gsm8k_train"}}
    one = leaderboard.entry("board", "How | it was done.", order_of(LATE, **changes), CONTEXT | {"data": data})
    assert [said for said in one.faults if said.startswith(fault)]
    text = leaderboard.markdown(one)
    assert "| NOT FOR THE COURSE'S BOARD. How \\| it was done. |" in text
    assert "**A row of this ladder's own board. It is none of the course's: " in text


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ({"pretrain": {"n_steps": 1200}}, "the policy is one made here, the board's is Qwen/Qwen2.5-Math-1.5B"),
        ({"hub": "Qwen/Qwen2.5-Math-7B"}, "the policy is Qwen/Qwen2.5-Math-7B, the board's is Qwen/Qwen2.5-Math-1.5B"),
    ],
)
def test_another_policy_is_another_board(model, fault):
    assert leaderboard.entry("board", "", order_of(LATE), CONTEXT | {"model": model}).faults == (fault,)


def test_what_was_not_checked_is_named():
    own = {"train": {"source": "jsonl", "path": "mine.jsonl", "name": "mine", "chosen_by": "pass_rates"}}
    context = {"stage": "sft", "model": {"path": "qwen"}, "data": MATH | own}
    one = leaderboard.entry("board", "", order_of(LATE), context)
    assert one.faults == ()
    for said in (
        "that the folder qwen holds Qwen/Qwen2.5-Math-1.5B as it was published",
        "that the rows of mine and validation are MATH's own",
        "that no stronger model wrote the responses that it imitates",
        "the time that choosing questions took (evaluation pass_rates), which its budget leaves out",
        "that the GPUs are H100s",
    ):
        assert said in leaderboard.verdict(one)
    nothing_known = leaderboard.entry("board", "", order_of(LATE))
    assert nothing_known.unchecked[:2] == (
        "which policy training starts from",
        "which data it trains on and validates on",
    )


def test_a_part_of_the_set_is_called_a_part():
    for asked, said in ((100, "(the first of them, not known to be all)"), (101, "(the full validation set)")):
        one = leaderboard.entry("board", "", order_of(LATE, questions=100, num_validation_examples=asked))
        assert f"100 validation examples {said}" in leaderboard.facts(one)[0]


def test_without_a_budget_there_is_no_row():
    assert leaderboard.entry("x", "", order_of(LATE, max_seconds=None)) is None
    rounds = Run("p", OFFICIAL, rounds=({"kept": 1, "answer_reward": 0.1},))
    assert budget([Configuration({}, (rounds,))]) is None  # that budget is of each round's fine-tuning


def test_the_axis_ends_at_the_budget():
    (axes,) = leaderboard.figure("board", order_of(LATE)[0], 14400.0).axes
    assert axes.get_xlim() == (0.0, 4.0)
    assert axes.get_xlabel() == "wall-clock, hours; the axis ends at the budget of 4.0 h"


def test_the_courses_grader_has_the_row_and_both_numbers_stand(tmp_path):
    counts = {"file": "drgrpo_grader.py", "sha256": 64 * "a", "step": 2, "responses": 5000, "answer_reward": 0.6198}
    counts |= {"answer_reward_here": 0.625, "right_there_alone": 3, "right_here_alone": 29}
    write_json(tmp_path / "reference.json", counts | {"faults": {"no verdict within 60 s of wall-clock time": 2}})
    order = order_of(LATE)
    runs = [replace(run, folder=tmp_path) for run in order[0].runs]
    order = [replace(order[0], runs=tuple(runs))]
    one = leaderboard.entry("board", "Fast.", order, CONTEXT | {"reference": True})
    assert leaderboard.row(one) == ["61.98 %", "board", "[curve](leaderboard.png)", "Fast."]
    assert leaderboard.facts(one)[-1] == (
        "The row's accuracy is by the grader in drgrpo_grader.py (sha256 aaaaaaaaaaaa): 61.98 % of 5000 responses "
        "right, where this project's own says 62.50 %; 3 are right there alone, 29 here alone, 2 could not be graded "
        "there (2 of them: no verdict within 60 s of wall-clock time)."
    )
    assert one.unchecked[-1] == "that drgrpo_grader.py is the course's own"
    assert leaderboard.row(leaderboard.entry("board", "Fast.", order, CONTEXT))[0] == "62.50 %"
