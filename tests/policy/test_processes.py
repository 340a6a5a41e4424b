"""How work is dealt to processes, and what one process alone does in their place."""

from __future__ import annotations

import pytest

from stages.hardware import Compute
from stages.policy import processes
from stages.policy.processes import dealt, gather, share, splits, totals


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("number", [0, 1, 4, 7, 8])
def test_every_part_counts_once_and_all_processes_run_equally_often(monkeypatch, number, size):
    parts = [f"part {place}" for place in range(number)]
    monkeypatch.setattr(processes, "count", lambda: size)
    hands = []
    for place in range(size):
        monkeypatch.setattr(processes, "rank", lambda place=place: place)
        hands.append(dealt(parts))
    assert len({len(hand) for hand in hands}) == 1
    assert sorted(part for hand in hands for part, weight in hand if weight == 1.0) == parts
    assert {weight for hand in hands for _, weight in hand} <= {0.0, 1.0}
    rounds = zip(*hands, strict=True)
    assert [part for one in rounds for part, weight in one if weight] == parts, "neighbours run at the same time"


def test_one_process_shares_with_nobody():
    value = object()  # not even JSON
    assert share(value) is value
    assert gather(value) == [value]
    assert totals({"loss": 0.5}) == {"loss": 0.5}


def test_sums_are_over_the_processes_that_have_them(monkeypatch):
    monkeypatch.setattr(processes, "gather", lambda sums: [sums, {"gap": 2.0}, {}])
    assert totals({"gap": 1.0, "ratio": 4.0}) == {"gap": 3.0, "ratio": 4.0}


@pytest.mark.parametrize(
    ("compute", "expected"), [({}, False), ({"dtype": "bfloat16"}, True), ({"train_processes": 2}, True)]
)
def test_when_weights_are_split(compute, expected):
    assert splits(Compute.model_validate(compute)) == expected
