"""Questions by how often they are answered right."""

from __future__ import annotations

import json

import pytest

from stages import pass_rate
from stages.records import EXAMPLES, DataError, read_table, table, write_table

RIGHT = {"a": [1, 1, 1, 1], "b": [0, 0, 0, 0], "c": [1, 0, 0, 0], "d": [1, 1, 0, 0], "e": [0, 1, 0, 1]}


def rows():
    return [{"example_id": name, "answer_reward": float(r)} for name, rights in RIGHT.items() for r in rights]


def examples():
    return [{"example_id": name, "question": name, "ground_truth": "1", "response": None} for name in "edcbaz"]


def test_rates_are_shares_of_right_responses():
    assert pass_rate.pass_rates(rows()) == {"a": 1.0, "b": 0.0, "c": 0.25, "d": 0.5, "e": 0.5}


@pytest.mark.parametrize(
    ("at_least", "at_most", "kept"),
    [(0.0, 1.0, "aedcb"), (0.1, 0.9, "edc"), (0.25, 0.25, "c"), (0.6, 0.9, ""), (0.0, 0.0, "b")],
)
def test_bounds_are_included_and_the_easiest_come_first(at_least, at_most, kept):
    """`z` was never sampled, so nothing is known of it; `e` stands before `d` in the file."""
    found = pass_rate.within(examples(), pass_rate.pass_rates(rows()), at_least, at_most)
    assert "".join(row["example_id"] for row in found) == kept


def test_the_command_writes_the_dataset_or_says_what_to_widen(tmp_path):
    write_table(tmp_path / "examples.parquet", table(examples(), EXAMPLES))
    write_table(tmp_path / "graded.parquet", pass_rate.pa.Table.from_pylist(rows(), schema=pass_rate.GRADED))

    def run(**bounds):
        values = {"source": "pass_rate", "evaluation": "x", **bounds}
        (tmp_path / "spec.json").write_text(json.dumps({"name": "chosen", "values": values}))
        files = [tmp_path / name for name in ("spec.json", "examples.parquet", "graded.parquet", "out.parquet")]
        pass_rate.main(*files)
        return [row["example_id"] for row in read_table(files[-1], EXAMPLES).to_pylist()]

    assert run(at_least=0.1, at_most=0.9) == ["e", "d", "c"]
    with pytest.raises(DataError, match=r"none of 5 questions has a pass rate from 0\.6 to 0\.9; widen data\.chosen"):
        run(at_least=0.6, at_most=0.9)
