import math

import pytest

from stages.reporting import wording
from stages.reporting.ladder import Rung, headline, in_order, remarks, rungs_of
from stages.reporting.runs import configurations, ranked
from stages.reporting.statistics import wilson
from tests.reporting.test_runs import SWEEP, run


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e-4, "3e-4"),
        (1e-05, "1e-5"),
        (2.5e-5, "2.5e-5"),
        (0.05, "0.05"),
        (0.0, "0"),
        (2e6, "2e6"),
        (-1e-3, "-1e-3"),
        (True, "true"),
        (None, "none"),
        (64, "64"),
        ("full", "full"),
        (["</answer>", 1e-3], "[</answer>, 1e-3]"),
        (math.inf, "inf"),
    ],
)
def test_values_are_written_as_people_write_them(value, text):
    assert wording.number(value) == text


def test_counts_come_with_their_interval():
    assert wording.counted({n: [0.0] for n in range(1319)}) == "0 of 1319 (0.0 %; 95 % interval 0.0 % to 0.3 %)"
    assert wording.counted({}) == "0 of 0"
    # 1, 1, 0 and 0 of two: as good as four questions, 2 of 4 right
    several = {"a": [1.0, 1.0], "b": [1.0, 1.0], "c": [0.0, 0.0], "d": [0.0, 0.0]}
    assert wording.counted(several) == "4 of 8 (50.0 %; 95 % interval over 4 questions 15.0 % to 85.0 %)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.34, "0.3 s"), (64.4, "64 s"), (144, "2.4 min"), (1500, "25 min"), (14400, "4.0 h")],
)
def test_durations_have_the_digits_that_mean_something(seconds, text):
    assert wording.duration(seconds) == text


def said(*runs):
    return wording.outcome(ranked(configurations(runs, SWEEP)))


def test_one_seed_is_judged_by_the_size_of_the_validation_set():
    near = said(run(1e-3, 0, 0.2, 0.50, 0.50, 0.50), run(3e-4, 0, 0.2, 0.45, 0.45, 0.45))
    assert near == (
        "Best: learning_rate = 1e-3, with a final validation answer reward of 0.500 (seed 0 alone), from 0.200 before "
        "training. It leads learning_rate = 3e-4 (0.450) by 0.050. One seed; with 100 validation questions the 95 % "
        "intervals of the two overlap, so the order may be chance."
    )
    assert "do not overlap" in said(run(1e-3, 0, 0.9), run(3e-4, 0, 0.2))


def test_several_seeds_are_judged_by_their_ranges():
    clear = said(run(1e-3, 0, 0.8), run(1e-3, 1, 0.9), run(3e-4, 0, 0.1), run(3e-4, 1, 0.7))
    assert "mean of seeds 0 and 1, range 0.800 to 0.900" in clear
    assert clear.endswith(
        "Every seed of the best scores above every seed of the second (between equals one time in 3); the gap is "
        "0.100, while seeds of one setting differ by up to 0.600."
    )
    six = [run(rate, seed, answer) for rate, answer in ((1e-3, 0.9), (3e-4, 0.8)) for seed in range(3)]
    assert "(between equals one time in 10); the gap is 0.100" in said(*six)  # 2 of 20 orders set three and three apart
    mixed = said(run(1e-3, 0, 0.6), run(1e-3, 1, 0.9), run(3e-4, 0, 0.1), run(3e-4, 1, 0.7))
    assert "ranges of their seeds overlap" in mixed


def test_the_printed_lead_is_the_difference_of_the_printed_scores():
    assert "0.853" in (text := said(run(1e-3, 0, 0.8534), run(3e-4, 0, 0.8306)))
    assert "(0.831) by 0.022." in text  # 0.0228 would print as 0.023, which nobody can check against the table


def test_a_tie_and_a_lead_too_small_to_print_are_called_what_they_are():
    assert "It ties with learning_rate = 1e-3 (0.500)" in said(run(1e-3, 0, 0.5), run(3e-4, 0, 0.5))
    assert "by less than 0.001" in said(run(1e-3, 0, 0.5001), run(3e-4, 0, 0.5002))


def test_runs_that_stopped_are_named_with_their_reason():
    broken = run(1e-3, 1, 0.3, status="diverged", reason="loss is\nnot finite.", steps=12)
    text = said(run(3e-4, 0, 0.2), broken)
    assert text.endswith("Diverged: learning_rate = 1e-3, seed 1 after 12 steps (loss is not finite).")
    assert "No other configuration finished; the next, learning_rate = 1e-3 (0.300), is ranked" in text
    assert "No configuration finished all its runs" in said(broken)


def test_the_ladder_shows_every_sft_variant_and_only_the_winner_of_grpo():
    order = ranked(configurations([run(1e-3, 0, 0.2, 0.4), run(3e-4, 0, 0.2, 0.6)], SWEEP))
    assert [rung.name for rung in rungs_of("x", "sft", order)] == ["x: learning_rate = 3e-4", "x: learning_rate = 1e-3"]
    (rung,) = rungs_of("x", "grpo", order)
    assert (rung.answer_reward, rung.questions, rung.note) == (pytest.approx(0.6), 100, "best of 2, 1 seed")
    assert (rung.low, rung.high) == pytest.approx(wilson(60, 100))
    assert "answers 60.0 % of the 100 questions" in headline([rung])
    assert "it was 20.0 %" in headline([rung])
    assert headline([]) == ""


def test_experiments_are_read_from_the_foot_of_the_ladder_upwards():
    experiments = {
        "a_last": {"stage": "grpo", "inherit": {"loss_type": "b_second"}},
        "b_second": {"stage": "grpo", "inherit": {"learning_rate": "z_first"}},
        "z_first": {"stage": "grpo"},
        "warm_up": {"stage": "sft"},
    }
    assert in_order(experiments) == ["warm_up", "z_first", "b_second", "a_last"]


def test_scores_of_nothing_are_said_in_words():
    nothing = Rung("gsm8k", "zero-shot", "r1_zero", "gsm8k_test", 1319, 0.0, 0.1, 0.0, 0.0029)
    something = Rung("x", "SFT", "", "", 100, 0.5, None, 0.4, 0.6)
    unmeasured = Rung("y", "SFT", "", "", 0, 0.0, None, 0.0, 1.0)
    missing, nil = remarks([nothing, something, unmeasured])
    assert missing == "Not measured on any question: y."
    assert nil.startswith("Nothing right: gsm8k: 0 of 1319. ")
    assert "a true rate above 0.3 % is unlikely" in nil
    assert remarks([something]) == []
