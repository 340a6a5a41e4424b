"""Tasks with a verifier of their own, through the graders that every stage uses."""

import pytest

from stages.grading import GraderPool, grade_response, r1_zero_reward_fn
from stages.tasks.verifiers import ground_truth_for

TRUTH = ground_truth_for("countdown", {"numbers": [3, 5, 2], "target": 16})
RIGHT = " Eight, doubled. </think> <answer> (3 + 5) * 2 </answer>"


@pytest.mark.parametrize(
    ("kind", "response", "verdict"),
    [
        ("r1_zero", RIGHT, "correct"),
        ("r1_zero", RIGHT.replace("2 <", "1 <"), "wrong"),
        ("r1_zero", "(3 + 5) * 2", "unformatted"),
        ("r1_zero", f"</think> <answer> {'(' * 1000} </answer>", "too_long"),
        ("question_only", r"It is \boxed{(3 + 5) \times 2 = 16}.", "correct"),
        ("question_only", r"It is \boxed{16}.", "wrong"),
    ],
)
def test_countdown(kind, response, verdict):
    assert grade_response(response, TRUTH, kind).verdict == verdict


def test_countdown_needs_no_worker_and_stands_beside_other_tasks():
    items = [
        (RIGHT, TRUTH),
        ("no tags", TRUTH),
        ("</think> <answer> 16 </answer>", "16"),
        (RIGHT, "countdown:{"),
    ]
    with GraderPool() as pool:
        verdicts = pool.grade(items, "r1_zero")
        assert pool.worker_pids == []
    assert [verdict.verdict for verdict in verdicts] == ["correct", "unformatted", "correct", "bad_reference"]
    assert verdicts[0].reason == "hits the target"


def test_the_public_signature_serves_them_as_well():
    assert r1_zero_reward_fn(RIGHT, TRUTH) == {"format_reward": 1.0, "answer_reward": 1.0, "reward": 1.0}
