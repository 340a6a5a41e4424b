"""GSM8K rows: gold from the last line, the worked answer as a response that its own grader calls correct."""

import json

import pytest

from stages.grading import grade_response
from stages.records import DataError
from stages.tasks.gsm8k import load

SOLUTION = "She packs 3 * 500 = <<3*500=1500>>1,500 nuts.\nThat costs $<<1500*2=3000>>3,000.\n#### 3,000"


def write(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_a_row_by_hand(tmp_path):
    path = write(tmp_path / "g.jsonl", {"question": "How much?", "answer": SOLUTION})
    assert load([path], "gsm8k_test") == [
        {
            "example_id": "gsm8k_test-000001",
            "question": "How much?",
            "ground_truth": "3000",
            "response": " She packs 3 * 500 = 1,500 nuts.\nThat costs $3,000. </think> <answer> 3000 </answer>",
        }
    ]


def test_the_zero_shot_form_changes_the_question_alone(tmp_path):
    path = write(tmp_path / "g.jsonl", {"question": "How much?", "answer": SOLUTION})
    (bare,), (asked,) = load([path], "g"), load([path], "g", "zero_shot")
    assert asked == {**bare, "question": "How much?\nAnswer:"}
    assert grade_response(SOLUTION, asked["ground_truth"], "gsm8k").verdict == "correct"


@pytest.mark.parametrize("last", ["18", "-5", "1,080", "0.75", "$12", "109,200,000"])
def test_the_response_is_correct_for_its_own_gold(tmp_path, last):
    path = write(tmp_path / "g.jsonl", {"question": "How much?", "answer": f"Easy.\n#### {last}"})
    (row,) = load([path], "g")
    assert grade_response(row["response"], row["ground_truth"], "r1_zero").verdict == "correct"
    assert row["ground_truth"] == last.replace(",", "").replace("$", "")


@pytest.mark.parametrize("answer", ["The answer is 18.", "18\n#### none", "18\n####", "18 #### "])
def test_an_answer_without_its_number_is_named_by_file_and_line(tmp_path, answer):
    good = {"question": "How much?", "answer": SOLUTION}
    path = write(tmp_path / "g.jsonl", good, {"question": "And now?", "answer": answer})
    with pytest.raises(DataError, match=r"g\.jsonl:2: .*####"):
        load([path], "g")


def test_missing_fields_are_named(tmp_path):
    with pytest.raises(DataError, match=r"g\.jsonl:1: field 'answer' is missing"):
        load([write(tmp_path / "g.jsonl", {"question": "How much?", "solution": SOLUTION})], "g")
    with pytest.raises(DataError, match=r"g\.jsonl:1: field 'question' is missing"):
        load([write(tmp_path / "g.jsonl", {"answer": SOLUTION})], "g")
