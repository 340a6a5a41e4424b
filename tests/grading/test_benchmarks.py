"""MMLU's letter and GSM8K's last number as rewards: the verdict, and the reference that is at fault."""

import pytest

from stages.grading import GraderPool, grade_response
from stages.tasks.verifiers import ground_truth_for

MMLU = ground_truth_for("mmlu", {"answer": "B", "options": ["yes", r"\boxed{no}", "both", "neither"], "subject": "law"})


@pytest.mark.parametrize(
    ("response", "verdict", "letter"),
    [
        ("The correct answer is B.\n```\n\n# Query:", "correct", "B"),
        ("The correct answer is C.", "wrong", "C"),
        ("The correct answer is E.", "unformatted", None),
        ("It is the second one.", "unformatted", None),
        ("", "unformatted", None),
    ],
)
def test_mmlu(response, verdict, letter):
    graded = grade_response(response, MMLU, "mmlu")
    assert (graded.verdict, graded.extracted) == (verdict, letter)
    assert graded.reward == float(verdict == "correct")


@pytest.mark.parametrize(
    ("response", "truth", "verdict", "number"),
    [
        ("She sold 15 clips.\n```\n\n# Query:", "15", "correct", "15"),
        ("First 3, then 1,080.00", "1080", "correct", "1080.00"),
        ("That makes -5.", "5", "wrong", "-5"),
        ("None at all.", "0", "unformatted", None),
        ("9" * 5000, "9", "wrong", "9" * 5000),
    ],
)
def test_gsm8k(response, truth, verdict, number):
    graded = grade_response(response, truth, "gsm8k")
    assert (graded.verdict, graded.extracted) == (verdict, number)


@pytest.mark.parametrize(
    ("truth", "kind"),
    [
        ("B", "mmlu"),
        ("mmlu:B", "mmlu"),
        ('mmlu:{"answer": "E", "options": ["1", "2", "3", "4"]}', "mmlu"),
        ('mmlu:{"answer": "A", "options": "1234"}', "mmlu"),
        ("mmlu:" + "[" * 100_000, "mmlu"),
        ("about five", "gsm8k"),
        ([], "gsm8k"),
    ],
)
def test_a_reference_that_is_none_is_not_the_responses_fault(truth, kind):
    assert grade_response("The correct answer is A. 5", truth, kind).verdict == "bad_reference"


def test_any_of_several_references_counts():
    assert grade_response("7", ["6", "7"], "gsm8k").verdict == "correct"
    assert grade_response("8", ["6", "7"], "gsm8k").verdict == "wrong"


def test_the_pool_grades_them_without_a_worker():
    with GraderPool() as pool:
        verdicts = pool.grade([("The correct answer is B.", MMLU), ("B", MMLU)], "mmlu")
        assert pool.worker_pids == []
    assert [one.verdict for one in verdicts] == ["correct", "unformatted"]
