"""Expert iteration's own programs: what survives a round, and how rounds become one run."""

from __future__ import annotations

import pytest

from stages import collect, survivors

QUESTIONS = {"a": "1 + 1?", "b": "2 + 2?"}


def rollout(example: str, index: int, response: str, reward: float) -> dict:
    facts = {"example_id": example, "sample_index": index, "response": response, "reward": reward}
    return facts | {"ground_truth": "2" if example == "a" else "4", "finish_reason": "stop"}


ROLLOUTS = [
    rollout("a", 0, "two", 1.0),
    rollout("a", 1, "two", 1.0),
    rollout("a", 2, "three", 0.0),
    rollout("b", 0, "two", 0.0),
    rollout("b", 1, "four", 1.0),
]


@pytest.mark.parametrize(("remove", "kept"), [(False, ["a/0", "a/1", "b/1"]), (True, ["a/0", "b/1"])])
def test_only_rewarded_responses_survive_and_repeats_are_counted(remove, kept):
    rows, repeats = survivors.survivors(ROLLOUTS, QUESTIONS, remove)
    assert [row["example_id"] for row in rows] == kept
    assert repeats == 1
    assert rows[-1] == {"example_id": "b/1", "question": "2 + 2?", "ground_truth": "4", "response": "four"}


def test_a_right_answer_in_a_response_that_was_cut_off_teaches_nothing():
    cut = rollout("a", 0, "It is two, and", 1.0) | {"finish_reason": "length"}
    assert survivors.survivors([cut], QUESTIONS, False) == ([], 0)


def test_no_survivor_is_an_empty_dataset():
    assert survivors.survivors([rollout("a", 0, "three", 0.0)], QUESTIONS, False) == ([], 0)


def row(kind: str, step: int, seconds: float, examples: int, answer: float | None = None) -> dict:
    return {"kind": kind, "step": step, "seconds": seconds, "num_examples": examples, "answer_reward": answer}


FIRST = [row("validation", 0, 1.0, 9, 0.2), row("train", 1, 2.0, 32), row("validation", 1, 3.0, 9, 0.4)]
SECOND = [row("train", 1, 2.0, 20), row("validation", 1, 4.0, 9, 0.5)]


def test_rounds_are_counted_through():
    """Sampling takes 10 s and 20 s; the second round begins where the first one was measured last."""
    rows, starts = collect.joined([FIRST, SECOND], [10.0, 20.0])
    assert starts == [0, 1]
    assert [r["rollout_batch"] for r in rows] == [0, 1, 1, 2, 2]
    assert [(r["round"], r["kind"], r["step"], r["seconds"], r["num_examples"]) for r in rows] == [
        (1, "validation", 0, 1.0, 9),
        (1, "train", 1, 12.0, 32),
        (1, "validation", 1, 13.0, 9),
        (2, "train", 2, 35.0, 52),
        (2, "validation", 2, 37.0, 9),
    ]


def test_the_status_says_what_each_round_kept_and_reached():
    rows, _ = collect.joined([FIRST, SECOND], [0.0, 0.0])
    states = [{"status": "finished", "reason": "", "steps": 1, "seconds": s, "values": {"lr": 2}} for s in (3.0, 4.0)]
    plan = {"values": {"group_size": 4}, "inherit": {"lr": "sweep"}}
    found = collect.summary(plan, states, [{"kept": 5}, {"kept": 0}], rows, 30.0)
    assert found["status"] == "finished"
    assert found["reason"] == "no response survived in round 2; the policy stayed as it was"
    assert (found["steps"], found["seconds"]) == (2, 37.0)
    assert found["values"] == {"group_size": 4, "lr": 2}
    assert found["rounds"] == [{"kept": 5, "answer_reward": 0.4}, {"kept": 0, "answer_reward": 0.5}]


def test_a_round_that_failed_is_the_runs_failure():
    rows, _ = collect.joined([FIRST, SECOND], [0.0, 0.0])
    states = [
        {"status": "diverged", "reason": "loss is nan at step 1", "steps": 1, "seconds": 1.0, "values": {}},
        {"status": "finished", "reason": "", "steps": 1, "seconds": 1.0, "values": {}},
    ]
    found = collect.summary({"values": {}}, states, [{"kept": 5}, {"kept": 5}], rows, 0.0)
    assert (found["status"], found["reason"]) == ("diverged", "loss is nan at step 1")
