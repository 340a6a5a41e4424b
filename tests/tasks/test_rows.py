"""Rows as people have them: what is a number, an id, a question's context; and nothing ends in a traceback."""

from __future__ import annotations

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.records import DATASETS, EXAMPLES, DataError, table
from stages.tasks import chat, gsm8k, hh, jsonl, math_style, mmlu, pairs, tulu3
from stages.tasks.files import Reading, read
from stages.tasks.rows import BadRow, identify, text


def written(folder, rows, name="a.json"):
    (folder / name).write_text(json.dumps(rows))
    return [folder / name]


@pytest.mark.parametrize("value", [10**400, -(10**400), "9" * 400, "-" + "1,234" * 100 + ".5"])
def test_a_number_may_have_more_digits_than_a_float_has_range_for(value):
    assert text({"answer": value}, "answer", "a:1", numbers=True) == str(value)


@pytest.mark.parametrize("value", [10**400, True, [10**400], {"a": None}])
def test_what_is_no_text_is_refused_whatever_its_size(value):
    with pytest.raises(BadRow, match="field 'question' must be a string") as caught:
        text({"question": value}, "question", "a:1")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("own", ["12e4567", "nan", "inf", "0001e999"])
def test_an_id_is_text_whatever_number_it_looks_like(own):
    assert identify({"id": own}, "mine", 1, "a:1") == (own, "id")


def test_a_number_that_is_none_is_no_id():
    with pytest.raises(BadRow, match="no finite number"):
        identify({"id": float("nan")}, "mine", 1, "a:1")


@pytest.mark.parametrize("given_input", [5, 5.0, "5", " 5\n"])
def test_an_input_that_is_a_number_stays_in_the_prompt(tmp_path, given_input):
    rows = [{"instruction": "Add one.", "input": given_input, "output": "6"}]
    ((row,), found) = chat.load(written(tmp_path, rows), "n", "instruction", "output", None)
    assert row["prompt"] == f"Add one.\n\n{str(given_input).strip()}"
    assert found == {"kept": 1}


@pytest.mark.parametrize("nothing", [None, "", " ", float("nan")])
def test_an_input_that_is_missing_adds_nothing(tmp_path, nothing):
    rows = [{"instruction": "Add one.", "input": nothing, "output": "6"}]
    ((row,), found) = chat.load(written(tmp_path, rows), "n", "instruction", "output", None)
    assert (row["prompt"], found) == ("Add one.", {})


@pytest.mark.parametrize("lost", [["a"], {"a": 1}, True, "\ud800"])
def test_a_context_that_is_neither_text_nor_number_is_never_dropped_unseen(tmp_path, lost):
    rows = [{"instruction": "Add one.", "input": lost, "output": "6"}]
    with pytest.raises(DataError, match="field 'input'"):
        chat.load(written(tmp_path, rows), "n", "instruction", "output", None)
    turns = [{"role": role, "content": "x"} for role in ("system", "user", "assistant")]
    turns[0]["content"] = lost
    with pytest.raises(DataError, match="field 'content'"):
        chat.load(written(tmp_path, [{"messages": turns}]), "n", "prompt", "response", "messages")


def test_the_system_of_a_preference_stays_in_its_prompt(tmp_path):
    rows = [{"system": "Be brief.", "question": "Why?", "chosen": "So.", "rejected": "Because it is so."}]
    ((row,), _) = pairs.load(written(tmp_path, rows), "n", "question", "chosen", "rejected")
    assert row["prompt"] == "Be brief.\n\nWhy?"
    ((row,), _) = pairs.load(written(tmp_path, rows), "n", "system", "chosen", "rejected")
    assert row["prompt"] == "Be brief."


@pytest.mark.parametrize(("answer", "letter"), [(1, "B"), (1.0, "B"), (3, "D")])
def test_a_whole_number_is_the_place_of_an_option(tmp_path, answer, letter):
    rows = [{"question": "q", "choices": ["k", "l", "m", "n"], "answer": answer, "subject": "s"}]
    (row,) = mmlu.load_rows(written(tmp_path, rows), "n")
    assert f'"answer": "{letter}"' in row["ground_truth"]


@pytest.mark.parametrize("answer", [1.5, 4, -1, True, None, "1", float("nan"), 10**400])
def test_what_is_the_place_of_no_option_is_refused(tmp_path, answer):
    rows = [{"question": "q", "choices": ["k", "l", "m", "n"], "answer": answer, "subject": "s"}]
    with pytest.raises(DataError, match="field 'answer' must be 0, 1, 2 or 3"):
        mmlu.load_rows(written(tmp_path, rows), "n")


def test_a_message_is_one_line_however_a_file_names_its_fields_and_roles(tmp_path):
    (tmp_path / "a.csv").write_text('"the\nquestion",answer\na,1\n')
    with pytest.raises(DataError, match="field 'question' is missing") as caught:
        jsonl.load([tmp_path / "a.csv"], "n", "question", "answer")
    assert "\n" not in str(caught.value)
    rows = [{"messages": [{"role": "x\n" * 1000, "content": "x"}]}]
    with pytest.raises(DataError, match="a chat by") as caught:
        chat.load(written(tmp_path, rows), "n", "prompt", "response", "messages")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


# ---------------------------------------------------------------- whatever a file holds

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NUMBERS = st.integers(-(10**320), 10**320) | st.floats() | st.booleans() | st.none()
ODD = st.sampled_from(
    ["#### 7", "a #### 1e999", "\\boxed{2}", "\ud800", "Level 3", "\n\nHuman: q\n\nAssistant: a", "nan"]
)
TURNS = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("content", "from"), WORDS | ODD | NUMBERS))
    | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "System", "tool"]), "content": WORDS | ODD}),
    max_size=4,
)
CELLS = WORDS | ODD | NUMBERS | TURNS | st.lists(WORDS | ODD, min_size=4, max_size=4) | st.dictionaries(WORDS, WORDS)
FIELDS = (
    "id",
    "question",
    "answer",
    "problem",
    "solution",
    "level",
    "messages",
    "prompt",
    "response",
    "system",
    "input",
)
FIELDS += ("chosen", "rejected", "choices", "subject")
LOADERS = {
    "questions": [
        lambda files, reading: jsonl.load(files, "n", "question", "answer", reading=reading),
        lambda files, reading: gsm8k.load(files, "n", reading=reading),
        lambda files, reading: math_style.load(files, "n", [3], reading=reading),
        lambda files, reading: math_style.load(files, "n", responses=True, reading=reading),
        lambda files, reading: tulu3.load(files, "n", reading)[0],
        lambda files, reading: mmlu.load_rows(files, "n", reading=reading),
    ],
    "instructions": [
        lambda files, reading: chat.load(files, "n", "prompt", "response", None, reading=reading)[0],
        lambda files, reading: chat.load(files, "n", "prompt", "response", "messages", reading=reading)[0],
    ],
    "preferences": [
        lambda files, reading: pairs.load(files, "n", "prompt", "chosen", "rejected", reading)[0],
        lambda files, reading: hh.load({"helpful-base": files[0]}, "n", None, reading)[0],
    ],
}


def rows_or_error(made):
    """What it makes, or the text of the DataError that it ends in."""
    try:
        return made()
    except DataError as error:
        return str(error)


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, CELLS)), min_size=1, max_size=3))
@settings(deadline=None, max_examples=100)
def test_any_row_is_read_or_left_out_and_told(tmp_path_factory, rows):
    files = written(tmp_path_factory.getbasetemp(), rows, "any.json")
    for kind, loaders in LOADERS.items():
        for load in loaders:
            found = rows_or_error(lambda load=load: load(files, Reading(max_left_out=1.0)))
            if isinstance(found, str):
                assert "\n" not in found
            else:
                assert table(found, DATASETS[kind]).num_rows <= len(rows)


@given(
    st.binary(max_size=60), st.sampled_from(["a.json", "a.csv", "a.tsv", "a.jsonl.gz", "a.parquet", "a"]), st.booleans()
)
@settings(deadline=None, max_examples=100)
def test_any_bytes_are_rows_or_one_line(tmp_path_factory, content, name, packed):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(gzip.compress(content) if packed else content)
    found = rows_or_error(lambda: [row for _, row in read([path])])
    assert str(path) in found if isinstance(found, str) else all(isinstance(row, dict) for row in found)


QUESTIONS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\r\t"), min_size=1)


@given(st.lists(st.tuples(QUESTIONS.filter(str.strip), st.integers()), min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_the_same_rows_come_out_of_every_form(tmp_path_factory, told):
    folder = tmp_path_factory.getbasetemp()
    rows = [{"question": question, "answer": str(answer)} for question, answer in told]
    written(folder, rows, "form.json")
    (folder / "form.jsonl").write_bytes("\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    for name, delimiter in (("form.csv", ","), ("form.tsv", "\t")):
        with open(folder / name, "w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, ["question", "answer"], delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
    pq.write_table(pa.Table.from_pylist(rows), folder / "form.parquet")
    (folder / "form.csv.gz").write_bytes(gzip.compress((folder / "form.csv").read_bytes()))
    for name in ("form.json", "form.jsonl", "form.csv", "form.tsv", "form.parquet", "form.csv.gz"):
        found = jsonl.load([folder / name], "n", "question", "answer")
        assert [(row["question"], row["ground_truth"]) for row in found] == [tuple(row.values()) for row in rows], name
        assert table(found, EXAMPLES).num_rows == len(rows)
