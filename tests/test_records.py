"""Rows on disk: declared, checked, readable with one line."""

from __future__ import annotations

import pandas as pd
import pytest

from stages import records
from stages.records import (
    EXAMPLES,
    METRICS,
    ROLLOUTS,
    DataError,
    count_rows,
    provenance_of,
    read_table,
    table,
    write_table,
)

EXAMPLE = {"example_id": "a-1", "question": "1 + 1?", "ground_truth": "2", "response": None}


@pytest.mark.parametrize("schema", [EXAMPLES, ROLLOUTS, METRICS])
def test_every_column_says_what_it_means(schema):
    for field in schema:
        assert field.metadata[b"meaning"], field.name
    assert len(set(schema.names)) == len(schema.names)


def test_round_trip_with_provenance(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(path, table([EXAMPLE], EXAMPLES), {"spec_hash": "abc"})
    assert read_table(path, EXAMPLES).to_pylist() == [EXAMPLE]
    assert provenance_of(path) == {"spec_hash": "abc", "schema_version": records.SCHEMA_VERSION}
    assert pd.read_parquet(path).example_id.tolist() == ["a-1"]
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]


def test_undeclared_and_missing_values_are_errors():
    with pytest.raises(DataError, match="undeclared columns \\['colour'\\]"):
        table([EXAMPLE | {"colour": "red"}], EXAMPLES)
    with pytest.raises(DataError, match="'question' must not be empty"):
        table([{"example_id": "a", "ground_truth": "1"}], EXAMPLES)


def test_a_truncated_file_is_named(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(path, table([EXAMPLE] * 100, EXAMPLES))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"x\.parquet: not a readable Parquet file"):
        read_table(path, EXAMPLES)


def test_a_folder_is_not_told_to_be_deleted(tmp_path):
    for read in (lambda path: read_table(path, EXAMPLES), count_rows):
        with pytest.raises(DataError, match=r": a folder; name a Parquet file$"):
            read(tmp_path)


def test_a_file_of_another_kind_names_the_missing_column(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(path, table([EXAMPLE], EXAMPLES))
    with pytest.raises(DataError, match="column 'step' is missing"):
        read_table(path, METRICS)
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "y.parquet", METRICS)


def test_timing_columns_are_those_in_seconds():
    in_seconds = {f.name for f in METRICS if f.metadata.get(b"unit") in (b"s", b"tokens/s", b"examples/s")}
    assert set(records.TIMINGS) == in_seconds
