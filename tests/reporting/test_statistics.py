"""Intervals against numbers worked by hand or printed in tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stages.reporting import statistics
from stages.reporting.statistics import of_score, over_questions, over_seeds, quantile, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # by hand: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) with z = 1.96
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (0, 1319, 0.0, 0.0029), (0, 0, 0.0, 1.0)],
)
def test_wilson_interval(successes, trials, low, high):
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("freedom", "reach"),  # of Student's table, 95 % two-sided
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042), (math.inf, 1.960)],
)
def test_quantiles_are_those_of_the_table(freedom, reach):
    assert quantile(0.95, freedom) == pytest.approx(reach, abs=5e-4)
    assert quantile(0.95, freedom + 0.9) == quantile(0.95, freedom)
    assert quantile(0.99, 2) == pytest.approx(9.925, abs=5e-4)


def test_one_response_each_is_wilsons_interval():
    assert of_score([1.0, 1.0, 1.0, 0.0]) == pytest.approx(wilson(3, 4))
    assert of_score([0.0] * 7) == wilson(0, 7)
    assert of_score([]) == (0.0, 1.0)


def test_responses_count_for_what_they_add_beyond_their_questions():
    # all responses to a question agree: eight of each add nothing to one
    assert of_score([1.0, 0.0, 1.0, 0.0], 32) == pytest.approx(wilson(2, 4))
    # p = 1/2, variance between questions (0.25² + 0.25²) / 2 = 1/16: 1/4 * 4 / (1/16) = 16 trials, of which Student's
    # quantile for four questions, 3.182, leaves (1.960 / 3.182)² = 0.3793
    assert of_score([0.25, 0.75, 0.25, 0.75], 32) == pytest.approx(wilson(8 * 0.3793, 16 * 0.3793), abs=1e-4)
    # two of ten with a right response tell little of how responses go together: each question counts once
    assert of_score([0.125, 0.25, *(8 * [0.0])], 80) == pytest.approx(wilson(0.375, 10))
    assert of_score([0.875, 0.75, *(8 * [1.0])], 80) == pytest.approx(wilson(9.625, 10))
    # every question alike: their spread says nothing, so each counts once; never more than the responses there are
    assert of_score([0.5, 0.5, 0.5, 0.5], 32) == pytest.approx(wilson(2, 4))
    assert of_score([0.49, 0.51, 0.49, 0.51], 32) == pytest.approx(wilson(16, 32))


def test_graded_rows_are_grouped_by_their_question():
    rows = [{"example_id": name, "verdict": verdict} for name, verdict in (("a", "correct"), ("b", "wrong"))] * 2
    assert statistics.by_question(rows) == {"a": [1.0, 1.0], "b": [0.0, 0.0]}
    assert statistics.total(statistics.by_question(rows)) == (2.0, 4)


def test_pairs_by_hand():
    """100 questions: one alone right 16 times, the other 4 times: difference 0.12, variance (20 - 100 * 0.12²) / 99;
    Student's quantile for 20 is 2.093."""
    differences = [1.0] * 16 + [-1.0] * 4 + [0.0] * 80
    assert over_questions(differences) == pytest.approx(2.09302 * math.sqrt((20 - 1.44) / 99 / 100), abs=1e-5)


def test_a_handful_of_questions_is_no_proof():
    """By McNemar's exact test five to none has p = 2 / 2^5 = 0.06, and eight to none 2 / 2^8 = 0.008."""
    for ahead, proof in ((4, False), (5, False), (8, True)):
        assert (ahead / 256 > over_questions([1.0] * ahead + [0.0] * (256 - ahead))) is proof
    for ahead, behind, proof in ((12, 4, False), (13, 3, True)):  # p = 0.077 and 0.021
        values = [1.0] * ahead + [-1.0] * behind + [0.0] * (256 - ahead - behind)
        assert (np.mean(values) > over_questions(values)) is np.bool_(proof)


def test_policies_that_answer_alike_may_differ_on_questions_not_asked():
    # Wilson's interval of 0 of 256 ends at 1.96² / (256 + 1.96²)
    assert over_questions([0.0] * 256) == pytest.approx(3.8415 / 259.8415, abs=1e-6)
    assert over_questions([0.0] * 10, 0.98) == pytest.approx(wilson(0, 10, quantile(0.98))[1])
    assert over_questions([1.0]) == math.inf


def test_proportions_by_hand():
    # Newcombe's example: 56 of 70 and 48 of 80, difference 0.2, 95 % interval 0.0524 to 0.3339
    below, above = statistics.of_proportions(56 / 70, 48 / 80, (70, 80))
    assert (0.2 - below, 0.2 + above) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_seeds_are_paired_where_both_ran_the_same():
    here, there = (0.5, 0.7, 0.9), (0.4, 0.5, 0.6)  # ahead by 0.1, 0.2 and 0.3: deviation 0.1
    assert over_seeds(here, there, paired=True) == pytest.approx(4.30265 * 0.1 / math.sqrt(3), abs=1e-5)
    # Welch: variances 0.04 / 3 and 0.01 / 3, (0.05 / 3)² / ((0.04 / 3)² / 2 + (0.01 / 3)² / 2) = 2.94 degrees, so 2
    assert over_seeds(here, there, paired=False) == pytest.approx(4.30265 * math.sqrt(0.05 / 3), abs=1e-5)
    assert over_seeds((0.5,), (0.4,), paired=True) == math.inf


def test_what_one_seed_leaves_open_is_assumed():
    assert statistics.assumed_seeds(0.02, (1, 1)) == pytest.approx(1.95996 * 0.02 * math.sqrt(2), abs=1e-6)


@pytest.mark.parametrize(("questions", "a", "b"), [(60, 0.5, 0.5), (5, 0.5, 0.5), (10, 0.1, 1.0), (60, 2.0, 0.05)])
def test_scores_of_several_responses_are_covered_as_stated(questions, a, b):
    """Questions of unequal difficulty, eight responses each, few questions and scores near 0 and 1 among them: binomial
    over responses would cover 64 times in 100 of the first kind, a normal quantile 86 of the third."""
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        easy = draw.beta(a, b, size=questions)
        low, high = of_score(draw.binomial(8, easy) / 8, 8 * questions)
        covered += low <= a / (a + b) <= high
    assert covered >= 0.93 * 400


def test_what_a_bootstrap_of_seeds_leaves_out():
    """It reaches from the lowest difference to the highest: two leave the truth outside half the time, three a quarter.
    Student's t covers what it states."""
    draw = np.random.default_rng(0)
    for seeds, resampled in ((2, 0.5), (3, 0.75)):
        gaps = draw.normal(0, 0.02, (2000, seeds))
        covered = np.mean([abs(one.mean()) <= over_seeds(one, np.zeros(seeds), paired=True) for one in gaps])
        assert covered == pytest.approx(0.95, abs=0.02)
        ends = [np.quantile(one[draw.integers(0, seeds, (300, seeds))].mean(axis=1), (0.025, 0.975)) for one in gaps]
        assert np.mean([low <= 0 <= high for low, high in ends]) == pytest.approx(resampled, abs=0.04)
