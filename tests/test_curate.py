"""Curating keeps the right responses in their order, and refuses to hand training an empty file."""

import json

import pytest

from stages import curate
from stages.records import EXAMPLES, DataError, provenance_of, read_table, table, write_table
from stages.strict import ConfigError
from stages.tasks.arithmetic import traces


def example(name, response, truth="4"):
    return {"example_id": name, "question": "2+2?", "ground_truth": truth, "response": response}


def run(folder, rows, **values):
    spec, examples, out = folder / "spec.json", folder / "examples.parquet", folder / "out.parquet"
    values = {"source": "curated", "dataset": "sft"} | values
    spec.write_text(json.dumps({"stage": "curate", "name": "sft_correct", "code": "c0de", "values": values}))
    write_table(examples, table(rows, EXAMPLES))
    curate.curate(spec=spec, examples=examples, out=out)
    return read_table(out, EXAMPLES).to_pylist()


def test_right_responses_are_kept_in_order(tmp_path, capsys):
    rows = [
        example("a", " 2 + 2 = 4. </think> <answer> 4 </answer>"),
        example("b", " 2 + 2 = 5. </think> <answer> 5 </answer>"),
        example("c", " 2 + 2 = 4. </think>\n<answer> 4 </answer>"),
        example("d", r" It is \boxed{4}."),
        example("e", " half. </think> <answer> \\frac{1}{2} </answer>", truth="0.5"),
    ]
    assert [row["example_id"] for row in run(tmp_path, rows)] == ["a", "e"]
    facts = provenance_of(tmp_path / "out.parquet")
    assert (facts["kept"], facts["total"]) == (2, 5)
    assert facts["verdicts"] == {"correct": 2, "unformatted": 2, "wrong": 1}
    assert "sft_correct: kept 2/5" in capsys.readouterr().err


def test_the_reward_decides_the_form(tmp_path):
    rows = [example("a", r" It is \boxed{4}."), example("b", " 4 </think> <answer> 4 </answer>")]
    assert [row["example_id"] for row in run(tmp_path, rows, reward="question_only")] == ["a"]


def test_generated_traces_lose_exactly_the_wrong_ones(tmp_path):
    rows = traces(40, 0.3, seed=0)
    assert len(run(tmp_path, rows)) == 28


def test_nothing_right_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"none of 1 responses is graded correct by question_only \(1 unformatted\)"):
        run(tmp_path, [example("a", " 4 </think> <answer> 4 </answer>")], reward="question_only")
    with pytest.raises(DataError, match=r"none of 0 responses"):
        run(tmp_path, [])
    assert not (tmp_path / "out.parquet").exists()


def test_a_dataset_without_responses_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"1 of 2 examples have no response to grade \(first: b\); .*data\.sft_correct"):
        run(tmp_path, [example("a", " x"), example("b", None)])


def test_another_source_is_an_error(tmp_path):
    spec = tmp_path / "spec.json"
    values = {"source": "arithmetic", "split": "train", "size": 3}
    spec.write_text(json.dumps({"stage": "prepare", "name": "mine", "code": "c0de", "values": values}))
    with pytest.raises(ConfigError, match=r"data\.mine: source 'arithmetic' is made by stages\.prepare"):
        curate.curate(spec=spec, examples=tmp_path / "absent", out=tmp_path / "out")
