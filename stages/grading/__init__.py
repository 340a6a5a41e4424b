"""Mathematical answer grading: extraction, equivalence, reward functions and a pool of killable workers.

Importing this package imports the standard library alone; mpmath comes with the first answer that needs it.
"""

from stages.grading.pool import GraderPool
from stages.grading.rewards import (
    REWARD_FUNCTIONS,
    grade_response,
    question_only_reward_fn,
    r1_zero_reward_fn,
)
from stages.grading.verdict import VERDICTS, Verdict

__all__ = [
    "REWARD_FUNCTIONS",
    "VERDICTS",
    "GraderPool",
    "Verdict",
    "grade_response",
    "question_only_reward_fn",
    "r1_zero_reward_fn",
]
