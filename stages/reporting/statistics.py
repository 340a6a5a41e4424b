"""What scores leave open: intervals of one score and of the difference of two, with questions and seeds as units.

Responses to one question are no independent witnesses, nor are validations of one run: the unit of a score is the
question, and that of a setting the seed. Every function here is a formula, so that a page says the same twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

Z95 = 1.959963984540054
Halves = tuple[float, float]  # how far an interval reaches below and above its middle


def wilson(successes: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a proportion, 95 % unless `z` says otherwise; (0, 1) without trials.

    Unlike the normal approximation it stays inside [0, 1] and keeps a width at 0 of n (Wilson 1927).
    """
    if trials <= 0:
        return 0.0, 1.0
    share, z2 = successes / trials, z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    return low, 1.0 if successes >= trials else min(1.0, centre + half)


def of_score(questions: Sequence[float], responses: float | None = None) -> tuple[float, float]:
    """The 95 % interval of a mean over questions, each with its own mean over responses, all in [0, 1].

    It is Wilson's with as many trials as the spread between questions is worth (Korn and Graubard 1998): the number of
    questions where each was answered once, more where answers to one question differ, at most that of `responses` (all
    of them; as many as questions by default). How much more is known from the questions that are neither all right nor
    all wrong with the others, so that Student's quantile for their number stands in for the normal one. Where all
    questions score alike, their spread tells nothing and each counts once.
    """
    values = np.asarray(questions, dtype=float)
    count = len(values)
    if not count:
        return 0.0, 1.0
    score, spread = float(values.mean()), float(values.var())
    worth = score * (1 - score) * count / spread if spread > 1e-12 else count
    worth *= (Z95 / quantile(0.95, min(np.count_nonzero(values > 0), np.count_nonzero(values < 1)) - 1)) ** 2
    trials = min(max(worth, count), max(responses or count, count))
    return wilson(score * trials, trials)


def by_question(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Example -> whether each of its responses is right, of graded ROLLOUTS rows."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["example_id"], []).append(float(row["verdict"] == "correct"))
    return found


def total(questions: Mapping[Any, Sequence[float]]) -> tuple[float, int]:
    """(right, of how many responses)"""
    return sum(map(sum, questions.values())), sum(map(len, questions.values()))


def of_questions(questions: Mapping[Any, Sequence[float]]) -> tuple[float, float]:
    """The interval of question -> responses, as `of_score`."""
    return of_score([float(np.mean(one)) for one in questions.values()], total(questions)[1])


def quantile(confidence: float, freedom: float = math.inf) -> float:
    """How many standard errors a two-sided interval reaches: Student's t with that many degrees of freedom, rounded
    down (which widens it); the normal distribution's where they are infinite."""
    whole = max(1, int(min(freedom, 1e6)))
    return NormalDist().inv_cdf((1 + confidence) / 2) if whole > 1000 else _student(confidence, whole)


@lru_cache(maxsize=256)
def _student(confidence: float, freedom: int) -> float:
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """P(|t| <= tan(angle) sqrt(freedom)), a finite sum for whole degrees of freedom (Abramowitz and Stegun 26.7.3)."""
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term = sine * math.cos(angle) if odd else sine
    total = 0.0
    for at in range(2 + odd, freedom + 1, 2):
        total += term
        term *= square * (at - 1) / at
    return 2 / math.pi * (angle + total) if odd else total


# ---------------------------------------------------------------- differences


def over_questions(differences: Sequence[float], confidence: float = 0.95) -> float:
    """Half the width of the interval of a mean difference, paired question by question.

    Only questions on which the two differ speak against chance, so that the quantile is Student's for their number.
    Five to none of 256 is then no proof, nor twelve to four, as they are none by the exact test (McNemar; p = 0.06 and
    0.08). Where no question tells the two apart, it is the share of questions that Wilson's interval of none leaves
    open.
    """
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        return math.inf
    differing = int(np.count_nonzero(values))
    if not differing:
        return wilson(0, len(values), quantile(confidence))[1]
    return quantile(confidence, differing - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))


def of_proportions(here: float, there: float, trials: tuple[int, int], confidence: float = 0.95) -> Halves:
    """What the interval of `here - there`, two proportions of so many trials each, reaches below and above: Newcombe's
    (1998), from Wilson's of each. For the same questions, not paired, it is wider than need be."""
    z = quantile(confidence)
    (low, high), (other_low, other_high) = (
        wilson(share * count, count, z) for share, count in zip((here, there), trials, strict=True)
    )
    return math.hypot(here - low, other_high - there), math.hypot(high - here, there - other_low)


def over_seeds(here: Sequence[float], there: Sequence[float], paired: bool, confidence: float = 0.95) -> float:
    """Half the width of the interval of the difference of two means of seeds, the seed being the unit.

    Student's t over the differences seed by seed where both ran the same seeds (`paired`), else Welch's. Two or three
    seeds leave one or two degrees of freedom, and the quantile (12.7 or 4.3) says so. Resampling so few seeds would
    not: a percentile interval reaches from the lowest of two or three differences to the highest, which leaves the
    truth outside one time in two or in four. Resampling questions as well hides that where they leave more open than
    seeds do, and no further (`python -m benchmarks.coverage` shows both).
    """
    a, b = np.asarray(here, dtype=float), np.asarray(there, dtype=float)
    if min(len(a), len(b)) < 2:
        return math.inf
    if paired:
        gaps = a - b
        return quantile(confidence, len(gaps) - 1) * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    shares = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if not sum(shares):
        return 0.0
    freedom = sum(shares) ** 2 / (shares[0] ** 2 / (len(a) - 1) + shares[1] ** 2 / (len(b) - 1))
    return quantile(confidence, freedom) * math.sqrt(sum(shares))


def assumed_seeds(deviation: float, counts: tuple[int, int], confidence: float = 0.95) -> float:
    """The same where an arm has one seed, which shows nothing of how seeds differ: for a standard deviation that is
    assumed."""
    return quantile(confidence) * deviation * math.sqrt(1 / counts[0] + 1 / counts[1])
