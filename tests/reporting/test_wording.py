import math
from dataclasses import replace

import pytest

from stages.reporting import wording
from stages.reporting.choice import choose
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
    return wording.outcome(choose(configurations(runs, SWEEP), SWEEP))


def answering(rate, seed, score, *right, asked=100):
    """A run that answered these of its questions; each of three validations alike."""
    rows = dict.fromkeys(map(str, range(asked)), 0.0) | dict.fromkeys(map(str, right), 1.0)
    return replace(run(rate, seed, 0.2, *(3 * [score])), answers=rows, answered=3)


def test_one_seed_is_told_of_two_checkpoints_in_pairs():
    """One answers questions 0 to 59, the other 16 to 63 and so 4 that the first does not: 0.12, as in
    test_statistics.py, with a half of 2.093 * 0.0433."""
    told = said(answering(1e-3, 0, 0.6, *range(60)), answering(3e-4, 0, 0.48, *range(16, 64)))
    assert told == (
        "Best: learning_rate = 1e-3, with a final validation answer reward of 0.600 (seed 0 alone), from 0.200 before "
        "training. It leads learning_rate = 3e-4 (0.480) by 0.120. On the same 100 questions these two checkpoints "
        "differ by 0.120 (95 % interval 0.029 to 0.211, in pairs); one seed each says nothing about the settings. "
        "Decided: learning_rate = 1e-3 is passed on, ahead of the default, learning_rate = 3e-4, by 0.120 (95 % "
        "interval 0.014 to 0.226, if seeds differ by a standard deviation of 0.02, as seed_noise has it)."
    )


def test_a_lead_is_one_number_wherever_it_stands():
    """0.9574 - 0.6388 is 0.319, and the scores that a reader sees are 0.318 apart."""
    told = said(run(1e-3, 0, 0.9573), run(1e-3, 1, 0.9575), run(3e-4, 0, 0.6387), run(3e-4, 1, 0.6389))
    assert "reward of 0.957 (" in told
    assert "(0.639, range 0.639 to 0.639) by 0.318. From 2 seeds" in told
    assert "ahead of the default, learning_rate = 3e-4, by 0.318 (95 % interval" in told


def test_a_lead_of_checkpoints_that_seeds_could_give_is_not_passed_on():
    told = said(answering(1e-3, 0, 0.59, *range(59)), answering(3e-4, 0, 0.5, *range(50)))
    assert "differ by 0.090 (95 % interval 0.024 to 0.156, in pairs); one seed each" in told  # t of 8, nine differ
    told = said(answering(1e-3, 0, 0.58, *range(58)), answering(3e-4, 0, 0.5, *range(50)))
    assert "differ by 0.080 (95 % interval 0.016 to 0.144, in pairs); one seed each" in told  # t of 7, eight differ
    assert told.endswith(
        "Undecided, so the default is passed on: learning_rate = 3e-4. The lead of learning_rate = 1e-3 over it is "
        "0.080 (95 % interval -0.005 to 0.165, if seeds differ by a standard deviation of 0.02, as seed_noise has it)."
    )


def test_other_questions_are_told_apart_from_pairs():
    near = said(run(1e-3, 0, 0.2, 0.50, 0.50, 0.50), run(3e-4, 0, 0.2, 0.45, 0.45, 0.45))
    assert "With 100 questions each, not paired, these two checkpoints differ by 0.050 (95 % interval" in near
    assert "so that may be chance; one seed each says nothing about the settings." in near


def test_several_seeds_are_a_claim_about_settings():
    """Ahead by 0.1, 0.2 and 0.3, seed by seed: 0.2, and 4.303 * 0.1 / sqrt(3) = 0.248 to either side."""
    leads = (0.5, 0.7, 0.9), (0.4, 0.5, 0.6)
    told = said(
        *(
            tuned_by_itself(rate, seed, score)
            for rate, scores in zip((1e-3, 3e-4), leads, strict=True)
            for seed, score in enumerate(scores)
        )
    )
    assert "mean of seeds 0, 1 and 2, range 0.500 to 0.900" in told
    assert (
        "From 3 seeds each, other seeds on this base policy would see a lead of -0.048 to 0.448 (95 % interval, paired "
        "by seed), so the order may be chance; where seeds differ as these do, so many can show no lead below 0.248."
    ) in told
    assert "Undecided, so the default is passed on: learning_rate = 3e-4." in told


def tuned_by_itself(rate, seed, score):
    """A run whose validations tell nothing of questions."""
    rows = tuple(row | {"num_examples": None} for row in run(rate, seed, score).validation)
    return replace(run(rate, seed), validation=rows)


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
