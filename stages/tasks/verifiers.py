"""Tasks whose answers are checked by a verifier of their own instead of being compared with one right answer.

The ground truth of such an example names the verifier and holds what it needs: `countdown:{"numbers": …}`. The format
gate of the reward (r1_zero, question_only) stands in front of it as for every other task.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stages.tasks.countdown_answers import check_countdown
from stages.tasks.reasoning_gym_answers import check_reasoning_gym

Outcome = tuple[str, str]


@dataclass(frozen=True)
class Verifier:
    """`check(problem, answer)` gives (verdict, reason) for an extracted answer and never raises.

    `quick` says that its work is bounded by counting, so that it may run outside a killable process.
    """

    check: Callable[[dict[str, Any], str], Outcome]
    quick: bool


VERIFIERS = {
    "countdown": Verifier(check_countdown, quick=True),
    "reasoning_gym": Verifier(check_reasoning_gym, quick=False),
}


def ground_truth_for(name: str, problem: dict[str, Any]) -> str:
    """The ground truth of an example that `VERIFIERS[name]` checks."""
    return f"{name}:{json.dumps(problem, sort_keys=True)}"


def verifier_of(ground_truth: str) -> Verifier | None:
    """The verifier that a ground truth names; None for an ordinary answer."""
    name, mark, _ = ground_truth.partition(":{")
    return VERIFIERS.get(name) if mark else None


def verify(ground_truth: str, answer: str) -> Outcome:
    """(verdict, reason) for an answer to an example that has a verifier; verdicts as in `stages.grading`."""
    name, _, body = ground_truth.partition(":")
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError) as error:
        return "bad_reference", f"the ground truth is not `{name}:` and a JSON object ({error})"
    return VERIFIERS[name].check(problem, answer.strip())
