"""MMLU rows, from the original CSV files and from the Hub's form: the same questions, the same references."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.grading import grade_response
from stages.records import DataError
from stages.tasks.mmlu import load_folder, load_rows
from stages.tasks.mmlu_answers import subject_of

VIRUS = '"Which of these, if any, is a virus?","Yeast, or ""mould""",HIV,Salt,{options[0]},B\n'
ALGEBRA = "What is 2 + 2?,1,2,3,4,D\n"
OPTIONS = ['Yeast, or "mould"', "HIV", "Salt", "{options[0]}"]
ASKED = (
    "Answer the following multiple choice question about college virology. Respond with a single sentence of the form "
    '"The correct answer is _", filling the blank with the letter corresponding to the correct answer (i.e., A, B, C '
    "or D).\n\nQuestion: Which of these, if any, is a virus?\n"
    'A. Yeast, or "mould"\nB. HIV\nC. Salt\nD. {options[0]}\nAnswer:'
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "college_virology_test.csv").write_text(VIRUS + ALGEBRA)
    (tmp_path / "algebra_test.csv").write_text(ALGEBRA)
    (tmp_path / "algebra_val.csv").write_text(ALGEBRA * 2)
    return tmp_path


def parquet(path, *rows):
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def hub_row(**changes):
    row = {"question": "Which of these, if any, is a virus?", "choices": OPTIONS, "answer": 1}
    return row | {"subject": "college_virology"} | changes


def test_a_question_is_asked_in_the_assignments_form(folder):
    rows = load_folder(folder, "mmlu", "test")
    ids = ["mmlu-algebra-000001", "mmlu-college_virology-000001", "mmlu-college_virology-000002"]
    assert [row["example_id"] for row in rows] == ids
    assert rows[1]["question"] == ASKED
    assert [subject_of(row["ground_truth"]) for row in rows] == ["algebra", "college virology", "college virology"]


def test_both_forms_of_the_data_give_the_same_question_and_reference(folder):
    (row,) = load_rows([parquet(folder / "a.parquet", hub_row())], "mmlu")
    other = load_folder(folder, "mmlu", "test", ["college_virology"])[0]
    assert {**row, "example_id": other["example_id"]} == other


def test_the_reference_reads_the_answer_that_is_asked_for(folder):
    truth = load_folder(folder, "mmlu", "test")[1]["ground_truth"]
    said = {"The correct answer is B.": "correct", "The correct answer is A.": "wrong", "HIV": "unformatted"}
    assert {text: grade_response(text, truth, "mmlu").verdict for text in said} == said


def test_splits_and_subjects_are_chosen(folder):
    assert len(load_folder(folder, "mmlu", "val")) == 2
    (folder / "dev").mkdir()
    (folder / "dev/algebra_dev.csv").write_text(ALGEBRA)
    assert len(load_folder(folder, "mmlu", "dev")) == 1
    file = parquet(folder / "a.parquet", hub_row(), hub_row(subject="algebra"))
    assert len(load_rows([file], "mmlu", ["algebra"])) == 1
    for load in (lambda: load_rows([file], "m", ["algebr"]), lambda: load_folder(folder, "m", "test", ["algebr"])):
        with pytest.raises(DataError, match="no subject 'algebr'; did you mean algebra"):
            load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("What?,1,2,3,A\n", r"algebra_test\.csv:1: 5 cells"),
        (ALGEBRA + "What?,1,2,3,4,E\n", r"algebra_test\.csv:2: the answer must be A, B, C or D \(got 'E'\)"),
        ("What?,1,2,3,4,AB\n", "must be A, B, C or D"),
        ("What?,1,2,3,4,\n", "must be A, B, C or D"),
        (" ,1,2,3,4,A\n", r"algebra_test\.csv:1: field 'question' is empty"),
        (ALGEBRA + '"What?,1,2,3,4,A\n', r"algebra_test\.csv:\d: not CSV"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path, text, message):
    (tmp_path / "algebra_test.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_folder(tmp_path, "mmlu", "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choices": OPTIONS[:3]}, r"a\.parquet:1: field 'choices' must be four strings"),
        ({"choices": "ABCD"}, "field 'choices' must be four strings"),
        ({"answer": 4}, "field 'answer' must be 0, 1, 2 or 3"),
        ({"answer": "B"}, "field 'answer' must be 0, 1, 2 or 3"),
        ({"subject": ""}, "field 'subject' is empty"),
    ],
)
def test_hub_rows_that_cannot_be_used_are_named(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        load_rows([parquet(tmp_path / "a.parquet", hub_row(**changes))], "mmlu")


def test_a_folder_without_the_split_says_what_it_looked_for(folder):
    with pytest.raises(DataError, match=r"no file named <subject>_dev\.csv in it or in dev/"):
        load_folder(folder, "mmlu", "dev")


def test_other_ground_truths_have_no_subject():
    for truth in ("4", "mmlu:4", 'mmlu:{"answer": "A"}', 'countdown:{"subject": "law"}', ""):
        assert subject_of(truth) is None
