"""The reward-function contract: names, types, errors, format gates, several references."""

import pytest

from stages.grading import REWARD_FUNCTIONS, grade_response, question_only_reward_fn, r1_zero_reward_fn
from stages.grading.extract import last_boxed
from stages.grading.verdict import make_verdict

RIGHT = {"format_reward": 1.0, "answer_reward": 1.0, "reward": 1.0}
WRONG = {"format_reward": 1.0, "answer_reward": 0.0, "reward": 0.0}
UNFORMATTED = {"format_reward": 0.0, "answer_reward": 0.0, "reward": 0.0}


def tagged(answer: str) -> str:
    return f"We add. </think> <answer> {answer} </answer>"


def test_rewards_are_floats_and_format_alone_earns_nothing():
    for rewards in (r1_zero_reward_fn(tagged("5"), "5"), r1_zero_reward_fn(tagged("6"), "5")):
        assert all(type(value) is float for value in rewards.values())
    assert r1_zero_reward_fn(tagged("5"), "5") == RIGHT
    assert r1_zero_reward_fn(tagged("6"), "5") == WRONG
    assert r1_zero_reward_fn("5", "5") == UNFORMATTED


@pytest.mark.parametrize("truth", ["0.5", 0.5, ["7", "1/2"], r"\boxed{\frac12}"])
def test_ground_truth_types(truth):
    assert r1_zero_reward_fn(tagged("0.5"), truth) == RIGHT
    assert question_only_reward_fn(r"so \boxed{0.5}", truth) == RIGHT


@pytest.mark.parametrize("truth", [None, {"a": 1}, ("5",), [5], [None], b"5"])
def test_other_ground_truths_are_type_errors_even_without_format(truth):
    for response in (tagged("5"), "no format"):
        with pytest.raises(TypeError, match="ground_truth"):
            r1_zero_reward_fn(response, truth)


def test_a_response_that_is_not_text_is_a_type_error():
    with pytest.raises(TypeError, match="response must be a str"):
        r1_zero_reward_fn(None, "5")


def test_an_unknown_kind_names_the_choices():
    with pytest.raises(ValueError, match="r1_zero, question_only"):
        grade_response("", "5", "boxed")
    assert set(REWARD_FUNCTIONS) == {"r1_zero", "question_only"}


def test_fast_and_slow_mode_agree():
    for answer in ("5", r"\frac{10}{2}", "6"):
        assert r1_zero_reward_fn(tagged(answer), "5", fast=True) == r1_zero_reward_fn(tagged(answer), "5", fast=False)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"\boxed{5}", RIGHT),
        (r"first \boxed{4}, no, \boxed{5}", RIGHT),
        (r"\boxed{5}, no, \boxed{4}", WRONG),
        (r"\boxed{5} and then \boxed{4", RIGHT),  # cut off: the last usable box counts
        (r"\boxed{\boxed{5}}", RIGHT),
        (r"\boxed{\text{the sum is }}", WRONG),
        (r"\boxed{}", WRONG),
        (r"\boxed{5", UNFORMATTED),
        (r"\boxed 5", UNFORMATTED),
        (r"\fbox{5}", UNFORMATTED),
        (tagged("5"), UNFORMATTED),
        ("", UNFORMATTED),
    ],
)
def test_question_only_takes_the_last_usable_box(response, expected):
    assert question_only_reward_fn(response, "5") == expected


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ 1 \right.}", r"\left\{ 1 \right."),
        (r"} \boxed{1} }", "1"),
        (r"{ \boxed{1}", "1"),
        (r"\boxed{1\\}", r"1\\"),
        (r"\boxed{1\}", None),
        ("no box", None),
    ],
)
def test_boxes_are_unwrapped_by_counting_braces(text, content):
    assert last_boxed(text) == content


def test_any_reference_of_a_list_may_match_and_the_most_telling_verdict_is_kept():
    assert grade_response(tagged("2"), ["1", "2"], "r1_zero").verdict == "correct"
    assert grade_response(tagged("3"), ["1", "2"], "r1_zero").verdict == "wrong"
    assert grade_response(tagged("3"), ["", "x"], "r1_zero").verdict == "wrong"
    assert grade_response(tagged("3"), [""], "r1_zero").verdict == "bad_reference"
    assert grade_response(tagged("3"), [], "r1_zero").verdict == "bad_reference"
    assert grade_response(tagged("9**9**9**9"), ["1", r"\sqrt2"], "r1_zero").verdict == "too_long"


def test_verdicts_carry_their_rewards():
    assert make_verdict("correct", "5", "").rewards() == RIGHT
    for name in ("wrong", "timeout", "too_long", "bad_reference"):
        assert make_verdict(name, "5", "").rewards() == WRONG
    assert make_verdict("unformatted", None, "").rewards() == UNFORMATTED
    with pytest.raises(ValueError, match="unknown verdict"):
        make_verdict("maybe", "5", "")
