"""Files of any form that is read: told apart by content, bounded in size, and no cell becomes what it is not."""

import csv
import datetime
import decimal
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.records import DataError
from stages.tasks import jsonl
from stages.tasks.files import Reading, read
from stages.tasks.prompts import PROMPTS, render

ROWS = [{"problem": "1+1?", "expected_answer": "2"}, {"problem": "2+2?", "expected_answer": "4"}]


def loaded(path, **more):
    return jsonl.load([path], "mine", "problem", "expected_answer", **more)


def as_csv(rows, delimiter=","):
    return "\n".join(delimiter.join(cells) for cells in [rows[0], *(row.values() for row in rows)]).encode()


def as_parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


LINES = "\n".join(map(json.dumps, ROWS)).encode()
ARRAY = json.dumps(ROWS, indent=2).encode()
FORMS = {
    "a.jsonl": LINES,
    "array.jsonl": ARRAY,
    "lines.json": LINES,
    "array.json": ARRAY,
    "a.json.gz": gzip.compress(ARRAY),
    "packed.jsonl": gzip.compress(LINES),
    "members.jsonl.gz": gzip.compress(LINES + b"\n") + gzip.compress(b"\n"),
    "zeros.jsonl.gz": gzip.compress(LINES) + bytes(64),
    "a.csv": as_csv(ROWS),
    "a.tsv": as_csv(ROWS, "\t"),
    "a.csv.gz": gzip.compress(as_csv(ROWS)),
    "lines.csv": LINES,
    "a.parquet": as_parquet(ROWS),
    "parquet.jsonl": as_parquet(ROWS),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_a_file_holds_is_told_by_its_content(tmp_path, name):
    (tmp_path / name).write_bytes(FORMS[name])
    assert [(row["question"], row["ground_truth"]) for row in loaded(tmp_path / name)] == [("1+1?", "2"), ("2+2?", "4")]


CELLS = {
    "decimal": (pa.array([decimal.Decimal("18.00")], pa.decimal128(10, 2)), "18.00"),
    "float": ([18.5], "18.5"),
    "integer": ([18], "18"),
    "date": ([datetime.date(2024, 1, 31)], "2024-01-31"),
    "NaN": ([float("nan")], "no finite number"),
    "infinite": ([float("inf")], "no finite number"),
    "binary": (pa.array([b"18"]), "must be a string or a number .got bytes"),
    "null": (pa.array([None], pa.string()), "must be a string or a number .got null."),
    "list": ([["18"]], "must be a string or a number"),
    "boolean": ([True], "must be a string or a number .got true."),
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_parquet_cell_is_its_exact_text_or_refused_in_one_line(tmp_path, kind):
    cells, told = CELLS[kind]
    far = pa.array([2**62], pa.timestamp("us"))  # beyond what Python's datetime holds, in a column that nobody reads
    pq.write_table(pa.table({"problem": ["a?"], "expected_answer": cells, "t": far}), tmp_path / "a.parquet")
    if kind in ("decimal", "float", "integer", "date"):
        assert loaded(tmp_path / "a.parquet")[0]["ground_truth"] == told
    else:
        with pytest.raises(DataError, match=told) as caught:
            loaded(tmp_path / "a.parquet")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b'[{"problem": "a", "expected_answer": NaN}]', b'[{"problem": "a", "expected_answer": 1e999}]']
)
def test_no_reference_is_made_of_what_is_no_number(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match="field 'expected_answer' is no finite number"):
        loaded(tmp_path / "a.json")


def test_a_long_cell_is_read_and_a_header_twice_is_refused(tmp_path):
    with open(tmp_path / "long.csv", "w", newline="") as file:
        csv.writer(file).writerows([["problem", "expected_answer"], ["x" * 140_000, "1"]])
    assert len(loaded(tmp_path / "long.csv")[0]["question"]) == 140_000
    (tmp_path / "twice.csv").write_text("problem,expected_answer,expected_answer\na,1,2\n")
    with pytest.raises(DataError, match=r"twice\.csv:1: two columns are named 'expected_answer'"):
        loaded(tmp_path / "twice.csv")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json.gz", "a.parquet"])
def test_what_a_file_unpacks_to_is_bounded(tmp_path, name):
    rows = [{"problem": "x" * 1000, "expected_answer": "1"}] * 100
    content = json.dumps(rows).encode()
    (tmp_path / name).write_bytes(
        as_parquet(rows) if name.endswith("parquet") else gzip.compress(content) if name.endswith("gz") else content
    )
    assert len(list(read([tmp_path / name], max_bytes=200_000))) == 100
    with pytest.raises(DataError, match=r"unpacks to more than max_bytes \(50000\)"):
        list(read([tmp_path / name], max_bytes=50_000))


@pytest.mark.parametrize("prompt", ["r1_zero", "alpaca", "zero_shot"])
def test_a_question_that_is_a_prompt_already_is_refused_or_cut_out(tmp_path, prompt):
    row = {"prompt": render(prompt, question="What is 2+2?"), "response": " </think> <answer> 4 </answer>"}
    (tmp_path / "sft.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match="the question is rendered already, by the prompt"):
        jsonl.load([tmp_path / "sft.jsonl"], "sft", "prompt", None, "response")
    (found,) = jsonl.load([tmp_path / "sft.jsonl"], "sft", "prompt", None, "response", rendered=prompt)
    assert (found["question"], found["ground_truth"]) == ("What is 2+2?", "4")
    other = next(name for name in ("r1_zero", "alpaca") if name != prompt)
    with pytest.raises(DataError, match=f"the question is not rendered by the prompt {other}"):
        jsonl.load([tmp_path / "sft.jsonl"], "sft", "prompt", None, "response", rendered=other)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text == text.strip() != ""))
@settings(deadline=None)
def test_any_question_comes_out_of_its_prompt_as_it_went_in(question):
    from stages.tasks.rows import unrender

    for prompt in ("r1_zero", "alpaca", "zero_shot"):
        assert unrender(prompt, PROMPTS[prompt].replace("{question}", question), "here") == question


def test_a_response_without_an_answer_is_counted(tmp_path):
    rows = [{"q": str(n), "r": f"<answer> {n} </answer>"} for n in range(30)] + [{"q": "x", "r": "no"}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    reading = Reading()
    assert len(jsonl.load([tmp_path / "a.json"], "a", "q", None, "r", reading=reading)) == 30
    assert reading.left_out == {"the response holds no <answer>": 1}


@pytest.mark.parametrize("cell", ["NaN", "nan", "-inf", "Infinity", "1e999"])
def test_text_that_stands_for_no_number_is_no_reference(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f"problem,expected_answer\na?,{cell}\n")
    with pytest.raises(DataError, match="field 'expected_answer' is no finite number"):
        loaded(tmp_path / "a.csv")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.duration("s")])
def test_a_time_without_exact_text_is_no_reference(tmp_path, kind):
    table = pa.table({"problem": ["a?"], "expected_answer": pa.array([2**62], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="field 'expected_answer' must be a string or a number"):
        loaded(tmp_path / "a.parquet")


def test_two_parquet_columns_of_one_name_are_refused(tmp_path):
    columns = [pa.array([cell]) for cell in ("a?", "1", "2")]
    names = ["problem", "expected_answer", "expected_answer"]
    pq.write_table(pa.Table.from_arrays(columns, names=names), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="two columns are named 'expected_answer'"):
        loaded(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "begins", [b"PK\x03\x04", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"ARROW1\0\0", b"\xff" * 4]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_packed_otherwise_is_called_what_it_is(tmp_path, begins, packed):
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(begins + LINES) if packed else begins + LINES)
    with pytest.raises(
        DataError, match=r"a\.jsonl: (packed by|an Arrow file).*, which is not read; make it JSON Lines"
    ):
        loaded(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl.gz"])
def test_what_is_packed_twice_is_told(tmp_path, name):
    (tmp_path / "a.gz").write_bytes(gzip.compress(FORMS["a.parquet"] if name == "a.parquet" else gzip.compress(LINES)))
    with pytest.raises(DataError, match=r"what gzip packs in it is packed itself; unpack it once"):
        loaded(tmp_path / "a.gz")


def test_a_cell_written_once_for_all_rows_does_not_fill_the_memory(tmp_path):
    cells = pa.array(["x" * 100_000] * 256)
    pq.write_table(pa.table({"problem": cells}), tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    held = pa.system_memory_pool()
    before, pa_default = held.max_memory(), pa.default_memory_pool()
    pa.set_memory_pool(held)
    try:
        with pytest.raises(DataError, match=r"unpacks to more than max_bytes \(1000000\)"):
            list(read([tmp_path / "a.parquet"], max_bytes=1_000_000))
    finally:
        pa.set_memory_pool(pa_default)
    assert held.max_memory() - before < 10_000_000  # all rows at once are 25 MB
