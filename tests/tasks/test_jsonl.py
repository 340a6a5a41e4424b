"""Files that can be used are read as they are; those that cannot are refused with file and line."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.records import EXAMPLES, DataError, read_table, table, write_table
from stages.tasks.files import read_objects
from stages.tasks.jsonl import load

GOOD = b'{"question": "1+1?", "answer": "2"}'


def read(path, content: bytes, **fields):
    path.write_bytes(content)
    return load([path], "mine", **({"question": "question", "answer": "answer"} | fields))


def test_rows_are_numbered_as_they_come(tmp_path):
    rows = read(tmp_path / "a.jsonl", GOOD + b"\n\n" + GOOD.replace(b"1+1", b"2+2") + b"\r\n")
    assert rows == [
        {"example_id": "mine-000001", "question": "1+1?", "ground_truth": "2", "response": None},
        {"example_id": "mine-000002", "question": "2+2?", "ground_truth": "2", "response": None},
    ]


def test_own_fields_own_ids_and_numbers(tmp_path):
    lines = [
        {"q": "a", "a": 5, "r": " 5 </think> <answer> 5 </answer>", "unique_id": "x/1", "id": 7},
        {"q": "b", "a": -0.5, "r": "…", "id": 8},
        {"q": "c", "a": "1/2", "r": "…", "id": None},
    ]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    rows = read(tmp_path / "a.jsonl", content, question="q", answer="a", response="r")
    assert [row["example_id"] for row in rows] == ["x/1", "8", "mine-000003"]
    assert [row["ground_truth"] for row in rows] == ["5", "-0.5", "1/2"]
    assert rows[0]["response"] == " 5 </think> <answer> 5 </answer>"


def test_a_byte_order_mark_and_gzip_are_read_through(tmp_path):
    plain = read(tmp_path / "a.jsonl", GOOD)
    assert read(tmp_path / "b.jsonl", b"\xef\xbb\xbf" + GOOD) == plain
    assert read(tmp_path / "c.jsonl.gz", gzip.compress(b"\xef\xbb\xbf" + GOOD)) == plain


def test_only_newlines_end_a_line(tmp_path):
    question = "a\u2028b\u0085c\x0bd"
    line = json.dumps({"question": question, "answer": "1"}, ensure_ascii=False).encode()
    assert read(tmp_path / "a.jsonl", line)[0]["question"] == question


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=5), st.booleans(), st.booleans())
@settings(deadline=None)
def test_any_text_survives_file_and_parquet(tmp_path_factory, triples, ascii_only, packed):
    folder = tmp_path_factory.mktemp("round_trip")
    lines = [json.dumps({"question": q, "answer": a, "response": r}, ensure_ascii=ascii_only) for q, a, r in triples]
    content = "\n".join(lines).encode()
    path = folder / ("a.jsonl.gz" if packed else "a.jsonl")
    rows = read(path, gzip.compress(content) if packed else content, response="response")
    assert [(row["question"], row["ground_truth"], row["response"]) for row in rows] == triples
    write_table(folder / "a.parquet", table(rows, EXAMPLES))
    assert read_table(folder / "a.parquet", EXAMPLES).to_pylist() == rows


SECOND_LINE_FAULTS = {
    "cut short": (GOOD[:-1], "not JSON"),
    "two objects": (GOOD + GOOD, "not JSON .Extra data, column 36."),
    "no object": (b'["question", "answer"]', "not a JSON object but"),
    "NaN": (b'{"question": "a", "answer": NaN}', "field .answer. is no finite number .got nan."),
    "infinity": (b'{"question": "a", "answer": -Infinity}', "field .answer. is no finite number .got -inf."),
    "more than a float holds": (b'{"question": "a", "answer": 1e999}', "field .answer. is no finite number .got inf."),
    "a key twice": (b'{"question": "a", "answer": "1", "answer": "2"}', "key 'answer' is there twice in one object"),
    "endless digits": (b'{"question": "a", "answer": ' + b"9" * 5000 + b"}", "not usable JSON"),
    "deep nesting": (b"[" * 200_000, "not usable JSON"),
    "latin-1": ('{"question": "é", "answer": "2"}'.encode("latin-1"), r"not UTF-8 \(byte 15 of the line\)"),
    "utf-16": (GOOD.decode().encode("utf-16"), "not UTF-8"),
    "missing": (b'{"question": "a", "anwser": "2"}', "field 'answer' is missing; did you mean anwser"),
    "empty object": (b"{}", "field 'question' is missing"),
    "null": (b'{"question": "a", "answer": null}', "field 'answer' must be a string or a number .got null."),
    "true": (b'{"question": "a", "answer": true}', "field 'answer' must be a string or a number .got true."),
    "list": (b'{"question": "a", "answer": ["2"]}', r"must be a string or a number \(got \[\"2\"\]\)"),
    "number": (b'{"question": 5, "answer": "2"}', "field 'question' must be a string .got 5."),
    "empty question": (b'{"question": " \\n", "answer": "2"}', "field 'question' is empty"),
    "empty answer": (b'{"question": "a", "answer": ""}', "field 'answer' is empty"),
    "half a pair": (b'{"question": "a \\ud83d", "answer": "2"}', "half a surrogate pair"),
    "id": (b'{"question": "a", "answer": "2", "id": [1]}', "field 'id' must be a string or a number"),
    "blank id": (b'{"question": "a", "answer": "2", "unique_id": ""}', "field 'unique_id' is empty"),
}


@pytest.mark.parametrize("fault", sorted(SECOND_LINE_FAULTS))
def test_a_line_that_cannot_be_used_is_named(tmp_path, fault):
    line, message = SECOND_LINE_FAULTS[fault]
    path = tmp_path / "a.jsonl"
    with pytest.raises(DataError, match=message) as caught:
        read(path, GOOD + b"\n" + line + b"\n")
    assert str(caught.value).startswith(f"{path}:2: ")


def test_a_response_asked_for_must_be_there(tmp_path):
    with pytest.raises(DataError, match=r"a\.jsonl:1: field 'proof' is missing; known: answer, question"):
        read(tmp_path / "a.jsonl", GOOD, response="proof")


def test_two_rows_of_one_id_are_refused(tmp_path):
    line = GOOD.replace(b"{", b'{"id": 3, ')
    with pytest.raises(
        DataError,
        match=r"a\.jsonl:3: its id is .*: '3' is that of .*a\.jsonl:1 as well; make 'id' unique",
    ):
        read(tmp_path / "a.jsonl", line + b"\n" + GOOD + b"\n" + line)


WHOLE_FILE_FAULTS = {
    "a.jsonl": (b"", "no examples in it"),
    "b.jsonl": (b"\n \n", "no examples in it"),
    "c.jsonl": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "`git lfs pull`"),
    "d.jsonl.gz": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "`git lfs pull`"),
    "e.jsonl.gz": (GOOD, "not a complete gzip file"),
    "f.jsonl.gz": (gzip.compress(GOOD)[:-9], "not a complete gzip file"),
}


@pytest.mark.parametrize("name", sorted(WHOLE_FILE_FAULTS))
def test_a_file_that_cannot_be_used_is_named(tmp_path, name):
    content, message = WHOLE_FILE_FAULTS[name]
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / name, content)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(DataError, match="absent: no such file; paths are relative to"):
        load([tmp_path / "absent"], "mine", "question", "answer")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        load([tmp_path], "mine", "question", "answer")


def test_reading_gives_line_numbers(tmp_path):
    (tmp_path / "a.jsonl").write_text('\n{"a": 1}\n\n{"b": 2}')
    assert list(read_objects(tmp_path / "a.jsonl")) == [(2, {"a": 1}), (4, {"b": 2})]
