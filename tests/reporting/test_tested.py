"""What the page says of the test set, by hand-made evaluations."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from stages.reporting import tested
from stages.reporting.contents import Evaluated
from stages.reporting.measures import ANSWERS, LOSS
from stages.reporting.runs import Run, configurations, ranked
from tests.reporting.build import rollout, validation

ASKED = {"prompt": "r1_zero", "reward": "r1_zero", "sampling_temperature": 1.0, "stop": ["</answer>"]}


def evaluation(name: str, verdicts: str, **values: Any) -> Evaluated:
    """`verdicts`: c(orrect) or w(rong) of each question."""
    words = {"c": "correct", "w": "wrong"}
    rows = [rollout(f"q{at}", 0, words[letter], response=f"{name} says so") for at, letter in enumerate(verdicts)]
    right = verdicts.count("c") / len(verdicts)
    metrics = validation(0, right, num_examples=len(verdicts))
    return Evaluated(name, {"dataset": "test", "model": "base", **ASKED, **values}, metrics, rows)


def experiment(name: str, scores: dict[str, float], measure: Any = ANSWERS, **values: Any) -> Any:
    """An experiment of prompts, each with its validation score; two seeds each, equal."""
    runs = [
        Run(
            f"{name}/prompt={prompt}/seed={seed}",
            {**ASKED, "prompt": prompt, "reward": prompt, "seed": seed, "validation": "held_out", **values},
            validation=(validation(0, 0.1), validation(5, score)),
            measure=measure,
        )
        for prompt, score in scores.items()
        for seed in (0, 1)
    ]
    order = ranked(configurations(runs, {"grid": {"prompt": list(scores)}}))
    return SimpleNamespace(name=name, stage="grpo", order=order, measure=measure)


BARE = {"prompt": "question_only", "reward": "question_only"}
TESTS = {
    "test_base": ["low", "high", "prompts"],
    "test_base_bare": ["prompts"],
    "test_low": ["low"],
    "test_high": ["high"],
    "test_prompts_r1": ["prompts"],
    "test_prompts_bare": ["prompts"],
}
EVALUATIONS = [
    evaluation("after", "cccc", model="tuned", prompt="alpaca", reward="question_only"),
    evaluation("test_base", "wwwc"),
    evaluation("test_base_bare", "wwcc", **BARE),
    evaluation("test_high", "cwcw", model="high"),
    evaluation("test_low", "cccc", model="low"),
    evaluation("test_prompts_bare", "wwww", model="prompts", **BARE),
    evaluation("test_prompts_r1", "ccww", model="prompts"),
]
EXPERIMENTS = [
    experiment("low", {"r1_zero": 0.7}),
    experiment("high", {"r1_zero": 0.9}),
    experiment("prompts", {"r1_zero": 0.6, "question_only": 0.8}),
    experiment("tuned", {"r1_zero": 0.5}, LOSS),
]


def test_the_headline_is_of_what_validation_puts_first_not_of_what_the_test_set_does():
    found = tested.tested(TESTS, EVALUATIONS, EXPERIMENTS)
    assert [one.experiment for one in found] == ["low", "high", "prompts"]
    assert tested.headline(found) == (
        "The trained policy that validation puts first (high: prompt = r1_zero) answers 50.0 % of the 4 questions of "
        "test right (95 % interval 15.0 % to 85.0 %), which no choice has seen; the base policy answers 25.0 %."
    )
    assert tested.headline([]) == ""


def test_the_winner_of_a_choice_of_prompts_counts_under_the_one_that_won():
    (found,) = tested.tested(TESTS, EVALUATIONS, [EXPERIMENTS[2]])
    assert (found.rung.prompt, found.rung.answer_reward, found.base.answer_reward) == ("question_only", 0.0, 0.5)
    assert found.rung.note == "seed 0; 0.800 on held_out (mean of seeds 0 and 1, best of 2)"
    assert found.sentence == (
        "On test, whose 4 questions chose nothing, its checkpoint answers 0.0 % right (95 % interval 0.0 % to 49.0 %); "
        "the base policy 50.0 %."
    )


def test_the_ladder_is_that_of_the_test_set():
    elsewhere = [*EVALUATIONS, evaluation("benchmark", "cw", dataset="gsm8k")]
    found = tested.tested(TESTS, elsewhere, EXPERIMENTS)
    rungs = tested.rungs(found, TESTS, elsewhere)
    assert [(rung.name, rung.kind) for rung in rungs] == [
        ("test_base", "zero-shot"),
        ("test_base_bare", "zero-shot"),
        ("low: prompt = r1_zero", "GRPO"),
        ("high: prompt = r1_zero", "GRPO"),
        ("prompts: prompt = question_only", "GRPO"),
        ("after", "winner of tuned"),
        ("benchmark", "zero-shot"),
    ]


def test_the_same_questions_stand_before_and_after():
    one = next(one for one in EVALUATIONS if one.name == "test_high")
    found = tested.before_and_after(one, EVALUATIONS)
    assert found.sentence == (
        "The same 4 questions, asked of the base policy (test_base): 2 learned (right after training alone), "
        "1 lost (right before it alone), 0 kept (right before and after), 1 missed (right neither before nor after). "
        "Paired question by question, the share right changed by +0.250 (95 % interval -1.000 to +1.000), between "
        "these two checkpoints."  # three questions that differ prove nothing: Student's t with two degrees of freedom
    )
    for story in found.stories.chosen:
        assert [row["response"] for row in story.samples] == ["test_base says so", "test_high says so"]
        assert {row["example_id"] for row in story.samples} == {story.example_id}


@pytest.mark.parametrize(
    ("name", "before"), [("after", "test_base_bare"), ("test_prompts_r1", "test_base"), ("test_base", None)]
)
def test_before_is_the_base_policy_under_the_same_reward(name: str, before: str | None):
    """An instruction-tuned policy has a template of its own; what reads its answers is the same."""
    one = next(one for one in EVALUATIONS if one.name == name)
    found = tested.before_and_after(one, EVALUATIONS)
    assert (found and found.before) == before


def test_what_judges_decide_stands_side_by_side_too():
    rows = [rollout(f"q{at}", 0, None) for at in range(6)]
    values = {"dataset": "alpaca_eval", "reward": "none"}
    base, tuned = (
        Evaluated(name, values | {"model": model}, validation(0, 0.0), rows)
        for name, model in (("before", "base"), ("after", "tuned"))
    )
    found = tested.before_and_after(tuned, [base, tuned])
    assert len(found.stories.chosen) == 4
    assert "6 ungraded (to be read: nothing graded it)" in found.sentence


def test_a_policy_whose_run_diverged_is_told_where_it_was_measured():
    broken = experiment("low", {"r1_zero": 0.4})
    runs = tuple(replace(run, status="diverged") for run in broken.order[0].runs)
    broken.order = [replace(broken.order[0], runs=runs)]
    (found,) = tested.tested(TESTS, EVALUATIONS, [broken])
    assert found.rung.note.endswith("its run diverged)")
