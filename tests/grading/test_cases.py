"""Every case of the files beside this one: pairs with a clear verdict, decided pairs, format, task parsers."""

import json
from pathlib import Path

import pytest

from stages.grading import r1_zero_reward_fn
from stages.grading.equivalence import decide
from stages.tasks.gsm8k_answers import gsm8k_numbers_equal, parse_gsm8k_response
from stages.tasks.mmlu_answers import parse_mmlu_response

CASES = Path(__file__).parent / "cases"
MMLU_EXAMPLE = {
    "subject": "virology",
    "question": "How many human polyomaviruses are known at present?",
    "options": ["100", "1", "10", "unknown"],
    "answer": "A",
}


def load(name: str) -> list[dict]:
    return json.loads((CASES / name).read_text())


def by_kind(name: str) -> dict[str, list[dict]]:
    kinds: dict[str, list[dict]] = {}
    for case in load(name):
        kinds.setdefault(case["kind"], []).append(case)
    return kinds


EQUIVALENCE, DECIDED = by_kind("equivalence.json"), by_kind("decided.json")


def accepted(case: dict) -> bool:
    """The verdict through the public reward function, as a training run would see it."""
    rewards = r1_zero_reward_fn(f"</think> <answer> {case['answer']} </answer>", case["gold"])
    return rewards["reward"] == 1.0


@pytest.mark.parametrize("kind", EQUIVALENCE)
def test_clear_pairs(kind):
    wrong = [case for case in EQUIVALENCE[kind] if accepted(case) != case["right"]]
    assert wrong == []


@pytest.mark.parametrize("kind", DECIDED)
def test_pairs_on_which_graders_differ_follow_the_documented_rules(kind):
    wrong = [case for case in DECIDED[kind] if accepted(case) != case["accepted"]]
    assert wrong == []


def test_every_kind_has_pairs_to_accept_and_pairs_to_reject():
    for kind, cases in EQUIVALENCE.items():
        expected = {case["right"] for case in cases}
        assert expected == {True, False} or kind in ("hostile", "boxed"), kind


@pytest.mark.parametrize("kind", EQUIVALENCE)
def test_a_gold_equals_itself(kind):
    golds = {case["gold"] for case in EQUIVALENCE[kind]}
    assert [gold for gold in golds if decide(gold, f" {gold}\n").outcome != "correct"] == []


@pytest.mark.parametrize("case", load("format.json"), ids=lambda case: case["note"])
def test_format(case):
    if case["expected"] is None:
        with pytest.raises(TypeError, match="ground_truth"):
            r1_zero_reward_fn(case["response"], case["ground_truth"])
    else:
        assert r1_zero_reward_fn(case["response"], case["ground_truth"]) == case["expected"]


@pytest.mark.parametrize("case", load("gsm8k.json"), ids=lambda case: case["note"])
def test_gsm8k(case):
    parsed = parse_gsm8k_response(case["text"])
    assert parsed == case["right"] or gsm8k_numbers_equal(parsed, case["right"])


@pytest.mark.parametrize("case", load("mmlu.json"), ids=lambda case: case["note"])
def test_mmlu(case):
    assert parse_mmlu_response(MMLU_EXAMPLE, case["output"]) == case["right"]
