"""Examples dealt out in batches."""

from __future__ import annotations

import pytest

from stages.examples import batch_of, drawn, first
from stages.records import DataError


def test_epochs_visit_every_example_once():
    rows = [{"example_id": i} for i in range(10)]
    seen = [row["example_id"] for step in range(10) for row in batch_of(rows, 3, step, seed=0)]
    for epoch in range(3):
        assert sorted(seen[10 * epoch : 10 * epoch + 10]) == list(range(10))
    assert seen[:10] != seen[10:20]
    assert batch_of(rows, 3, 7, seed=0) == batch_of(rows, 3, 7, seed=0)
    assert batch_of(rows, 3, 7, seed=0) != batch_of(rows, 3, 7, seed=1)


def test_a_curriculum_goes_through_the_rows_as_they_lie():
    assert batch_of("abcde", 3, 1, seed=0, order="file") == ["d", "e", "a"]


def test_a_number_of_examples_that_are_not_there_is_refused_where_it_names_a_run():
    rows = [{"example_id": i} for i in range(3)]
    assert first(rows, 2, exactly=True) == rows[:2]
    assert first(rows, 3, exactly=True) == first(rows, "full", exactly=True) == first(rows, 1024) == rows
    with pytest.raises(DataError, match="num_examples: 4 of a training set of 3; write full, or a number of them"):
        first(rows, 4, exactly=True)


def test_examples_to_read_are_drawn_from_all_of_a_file_that_lies_by_subject():
    rows = [{"example_id": f"{subject}-{n}"} for subject in ("algebra", "logic", "virology") for n in range(100)]
    found = drawn(rows, 30)
    assert found == drawn(rows[::-1], 30), "the order of the file decides nothing"
    assert found[:10] == drawn(rows, 10)
    counts = [sum(row["example_id"].startswith(subject) for row in found) for subject in ("algebra", "logic", "vir")]
    assert min(counts) >= 3, counts
    assert len(drawn(rows, 1000)) == 300


def test_files_with_the_same_questions_show_the_same_ones():
    before = [{"example_id": f"q{n}", "sample_index": 0} for n in range(50)]
    after = [{**row, "response": "x"} for row in before[::-1]]
    assert [row["example_id"] for row in drawn(before, 5)] == [row["example_id"] for row in drawn(after, 5)]
