"""What the runs of a stage are judged by: a column of its validations, how it is read, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SEED_NOISE = 0.02  # standard deviation between seeds that is reckoned with where an arm has one and the plan says none


@dataclass(frozen=True)
class Measure:
    """`column` of METRICS in `words`, and as `short` in a table's heading.

    A run's score is the mean of the `last three` validations (sampling makes each one noisy), the `last` one, or the
    `best` one (where that checkpoint is kept); the one from before training counts only where there is no other.
    `items` are what it is a share of; none where it is no share. `beside`: other columns of a table, with their
    headings. `legend` says all of this to a reader.
    """

    column: str
    words: str
    short: str
    read: Literal["last three", "last", "best"]
    legend: str
    items: str = ""
    higher_is_better: bool = True
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def when(self) -> str:
        return "best" if self.read == "best" else "final"

    @property
    def worst(self) -> float:
        """The score of a run that never validated."""
        return 0.0 if self.higher_is_better else float("inf")

    def ahead(self, here: float, there: float) -> float:
        """By how much `here` is better than `there`; negative where it is worse."""
        return here - there if self.higher_is_better else there - here


# Columns beside a measure that are of training rows; all others are of validations.
TRAINING = ("gradient_norm", "reward_margin", "chosen_log_prob", "rejected_log_prob")

ANSWERS = Measure(
    column="answer_reward",
    words="answer reward",
    short="reward",
    read="last three",
    items="questions",
    beside={
        "final_format_reward": "final format",
        "token_entropy": "entropy (nats)",
        "gradient_norm": "gradient norm",
        "length": "length",
        "length_correct": "length, correct",
        "length_incorrect": "length, incorrect",
    },
    legend="Reward is the answer reward on the validation set. Final values are means of the last three validations, "
    "that before training left out; entropy and lengths (in tokens) are of the same, of what the policy sampled there; "
    "the gradient norm is of training.",
)
LOSS = Measure(
    column="loss",
    words="loss",
    short="loss",
    read="last",
    higher_is_better=False,
    beside={"perplexity": "perplexity", "gradient_norm": "gradient norm"},
    legend="Loss is that of the packed validation set, in nats per token; lower is better. Final values are the last "
    "ones; the gradient norm is of training.",
)
PREFERENCES = Measure(
    column="preference_accuracy",
    words="preference accuracy",
    short="accuracy",
    read="best",
    items="pairs",
    beside={
        "ranking_accuracy": "ranked by log-prob alone",
        "reward_margin": "margin (nats)",
        "chosen_log_prob": "log-prob, chosen",
        "rejected_log_prob": "log-prob, rejected",
        "gradient_norm": "gradient norm",
    },
    legend="Accuracy is the share of validation pairs whose chosen response has the higher implicit reward, and 0.5 "
    "where the policy is its reference; the checkpoint with the best one is kept. Final values are means of the last "
    "three rows; all but the accuracies are of training. Log-probs are sums over a response, from where the two part.",
)
MEASURES = {"instruct": LOSS, "dpo": PREFERENCES}  # by stage; the others are judged by answers


def measure_of(stage: str | None) -> Measure:
    return MEASURES.get(stage or "", ANSWERS)
