"""Generated instructions and preferences: what is right is right, and splits stay apart."""

import re

from stages.tasks.arithmetic import problems, split_of
from stages.tasks.arithmetic_alignment import instructions, preferences


def reached(response: str) -> str:
    """The boxed answer of a response whose steps are consistent: each works on from the one before."""
    steps = re.findall(r"(\d+) ([-+*]) (\d+) = (\d+)\.", response)
    assert len(steps) == 2
    assert steps[1][0] == steps[0][3]
    boxed = re.fullmatch(r".* The answer is \\boxed\{(\d+)\}\.", response)[1]
    assert boxed == steps[1][3]
    return boxed


def test_as_many_instructions_as_asked_for_are_answered_wrongly():
    answers = {problem.question: str(problem.answer) for problem in problems("train", 40, 3)}
    rows = instructions("train", 40, 0.25, 3, "mine")
    assert len({row["example_id"] for row in rows}) == 40
    assert {split_of(row["prompt"]) for row in rows} == {"train"}
    assert sum(reached(row["response"]) != answers[row["prompt"]] for row in rows) == 10
    assert all(reached(row["response"]) == answers[row["prompt"]] for row in instructions("train", 40, 0.0, 3, "mine"))


def test_the_chosen_answer_is_right_and_the_rejected_one_is_wrong():
    answers = {problem.question: str(problem.answer) for problem in problems("validation", 40, 0)}
    rows = preferences("validation", 40, 0, "mine")
    for row in rows:
        assert reached(row["chosen"]) == answers[row["prompt"]]
        assert reached(row["rejected"]) != answers[row["prompt"]]
    assert preferences("validation", 10, 0, "mine") == rows[:10]
