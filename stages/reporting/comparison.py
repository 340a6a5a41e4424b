"""One configuration of an experiment beside another: by how much it is ahead, and what questions and seeds leave open.

Two claims are kept apart. That two *checkpoints* differ needs the questions alone, in pairs. That two *settings* differ
is a claim about seeds that nobody has run, so that its interval holds what seeds leave open as well, and is of the base
policy that all runs start from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stages.reporting import statistics
from stages.reporting.measures import SEED_NOISE
from stages.reporting.runs import Configuration, Run, column
from stages.reporting.statistics import Halves


@dataclass(frozen=True)
class Comparison:
    """`lead` of one configuration over another, positive where it is better; `printed`: as a reader subtracts it, from
    scores of three digits. Halves are what an interval reaches below and above it: for `questions` None where nothing
    is known of them. `paired`: question by question."""

    lead: float
    printed: float
    questions: Halves | None
    seeds: float
    asked: int
    paired: bool
    counts: tuple[int, int]
    shared_seeds: bool
    seed_noise: float

    @property
    def several_seeds(self) -> bool:
        return min(self.counts) > 1

    @property
    def checkpoints(self) -> tuple[float, float] | None:
        """The interval of the lead of these checkpoints over each other; None without questions."""
        return None if self.questions is None else self._interval(0.0)

    @property
    def settings(self) -> tuple[float, float]:
        """The interval of the lead that other seeds would show. What questions and seeds leave open are added as
        variances are; that the one counts a part of the other again makes it a little wide."""
        return self._interval(self.seeds)

    @property
    def decided(self) -> bool:
        """Whether the settings differ beyond chance, whichever is ahead."""
        low, high = self.settings
        return low > 0 or high < 0

    def _interval(self, seeds: float) -> tuple[float, float]:
        below, above = self.questions or (0.0, 0.0)
        return self.lead - math.hypot(below, seeds), self.lead + math.hypot(above, seeds)


def compare(
    here: Configuration, there: Configuration, seed_noise: float = SEED_NOISE, confidence: float = 0.95
) -> Comparison:
    """`here` beside `there`. What several seeds leave open they show themselves; for one it is `seed_noise`."""
    counts = len(here.runs), len(there.runs)
    shared = [run.seed for run in here.runs] == [run.seed for run in there.runs]
    if not all(map(math.isfinite, (*here.scores, *there.scores))):  # a loss that was never measured
        seeds = 0.0
    elif min(counts) > 1:
        seeds = statistics.over_seeds(here.scores, there.scores, shared, confidence)
    else:
        seeds = statistics.assumed_seeds(seed_noise, counts, confidence)
    halves, paired = _questions(here, there, confidence)
    differ = here.score != there.score  # inf - inf is no number
    return Comparison(
        lead=here.measure.ahead(here.score, there.score) if differ else 0.0,
        printed=here.measure.ahead(round(here.score, 3), round(there.score, 3)) if differ else 0.0,
        questions=halves,
        seeds=seeds,
        asked=min(map(asked, (*here.runs, *there.runs))),
        paired=paired,
        counts=counts,
        shared_seeds=shared,
        seed_noise=seed_noise,
    )


def _questions(here: Configuration, there: Configuration, confidence: float) -> tuple[Halves | None, bool]:
    """What questions leave open, and whether they were paired. Measures that are no share of anything have none."""
    own, other = answers(here), answers(there)
    if own and own.keys() == other.keys():
        half = statistics.over_questions([own[name] - other[name] for name in own], confidence)
        return (half, half), True
    trials = min(map(asked, here.runs)), min(map(asked, there.runs))
    if not here.measure.items or not all(trials):
        return None, False
    return statistics.of_proportions(here.score, there.score, trials, confidence), False


def answers(one: Configuration) -> Mapping[str, float]:
    """Question -> how often it was answered rightly, mean over seeds; empty unless all of them answered the same."""
    first = one.runs[0].answers
    if not first or any(run.answers.keys() != first.keys() for run in one.runs):
        return {}
    means = np.mean([[run.answers[name] for name in first] for run in one.runs], axis=0)
    return dict(zip(first, map(float, means), strict=True))


def interval(one: Configuration) -> tuple[float, float]:
    """The 95 % interval of its score, over questions. Seeds share the questions, so they hardly narrow it."""
    own = answers(one)
    if own:
        responses = len(own) * sum(run.answered for run in one.runs)
        return statistics.of_score(list(own.values()), responses)
    return statistics.wilson(one.score * asked(one.runs[0]), asked(one.runs[0]))


def asked(run: Run) -> int:
    """How many questions (or pairs) a validation asked."""
    return (column(run.validation, "num_examples") or [0])[-1]
