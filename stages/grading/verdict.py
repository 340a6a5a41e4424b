"""What the grader says about one response."""

from dataclasses import dataclass

VERDICTS = ("correct", "wrong", "unformatted", "timeout", "too_long", "bad_reference")


@dataclass(frozen=True)
class Verdict:
    """One graded response.

    `format_reward`, `answer_reward` and `reward` are 0.0 or 1.0; format alone earns nothing, so `reward` equals
    `answer_reward`. `verdict` is one of VERDICTS: `timeout`, `too_long` and `bad_reference` are graded 0 but counted
    apart, so that a fault of the grader or of the data never hides among the wrong answers.
    """

    format_reward: float
    answer_reward: float
    reward: float
    verdict: str
    extracted: str | None
    reason: str

    def rewards(self) -> dict[str, float]:
        """The three floats under the names that reward functions return."""
        return {
            "format_reward": self.format_reward,
            "answer_reward": self.answer_reward,
            "reward": self.reward,
        }


def make_verdict(verdict: str, extracted: str | None, reason: str) -> Verdict:
    """A Verdict with the rewards that follow from its name."""
    if verdict not in VERDICTS:
        raise ValueError(f"unknown verdict {verdict!r}; one of {', '.join(VERDICTS)}")
    formatted = 0.0 if verdict == "unformatted" else 1.0
    correct = 1.0 if verdict == "correct" else 0.0
    return Verdict(formatted, correct, correct, verdict, extracted, reason)
