"""One METRICS row by hand: counts partition the responses, means and lengths are those of the right ones."""

import pytest

from stages.measure import validation_metrics
from stages.records import METRICS, DataError, table

REWARDS = {"correct": (1.0, 1.0), "wrong": (1.0, 0.0), "unformatted": (0.0, 0.0), "timeout": (1.0, 0.0)}


def rollout(example, verdict, tokens, finish="stop", entropy=None):
    formatted, right = REWARDS[verdict]
    return {
        "example_id": example,
        "num_response_tokens": tokens,
        "finish_reason": finish,
        "mean_token_entropy": entropy,
        "format_reward": formatted,
        "answer_reward": right,
        "reward": right,
        "verdict": verdict,
    }


ROWS = [
    rollout("a", "correct", 10, entropy=1.0),
    rollout("a", "wrong", 30, entropy=0.5),
    rollout("b", "correct", 20, entropy=2.0),
    rollout("b", "unformatted", 40, finish="length", entropy=0.25),
    rollout("c", "timeout", 25, finish="eos", entropy=0.0),
]


def test_a_row_by_hand():
    row = validation_metrics(ROWS, step=7, seconds=1.5)
    assert (row["step"], row["kind"], row["seconds"]) == (7, "validation", 1.5)
    assert (row["format1_answer1"], row["format1_answer0"], row["format0_answer0"], row["ungraded"]) == (2, 2, 1, 1)
    assert (row["num_examples"], row["num_tokens"]) == (3, 125)
    assert (row["format_reward"], row["answer_reward"], row["reward"]) == (0.8, 0.4, 0.4)
    assert (row["length"], row["length_correct"], row["length_incorrect"]) == (25.0, 15.0, 95 / 3)
    assert row["truncated"] == 0.2
    assert row["token_entropy"] == (10 * 1.0 + 30 * 0.5 + 20 * 2.0 + 40 * 0.25) / 125
    assert table([row], METRICS).num_rows == 1


def test_a_sort_without_responses_has_no_length():
    right = validation_metrics(ROWS[:1], step=0, seconds=0.0)
    assert (right["length_correct"], right["length_incorrect"]) == (10.0, None)
    wrong = validation_metrics(ROWS[1:2], step=0, seconds=0.0)
    assert (wrong["length_correct"], wrong["length_incorrect"]) == (None, 30.0)
    assert (wrong["answer_reward"], wrong["format1_answer1"]) == (0.0, 0)


def test_entropy_is_null_unless_known_for_every_token():
    assert validation_metrics([*ROWS, rollout("d", "wrong", 5)], 0, 0.0)["token_entropy"] is None
    silent = rollout("d", "unformatted", 0)
    assert validation_metrics([ROWS[0], silent], 0, 0.0)["token_entropy"] == 1.0
    only_silent = validation_metrics([silent], 0, 0.0)
    assert (only_silent["token_entropy"], only_silent["length"]) == (None, 0.0)


def test_nothing_to_measure_and_nothing_graded_are_errors():
    with pytest.raises(DataError, match="no rollouts to measure"):
        validation_metrics([], 0, 0.0)
    with pytest.raises(DataError, match=r"1 of 2 rollouts have no rewards \(first: b\); grade them first"):
        validation_metrics([ROWS[0], ROWS[2] | {"answer_reward": None}], 0, 0.0)
