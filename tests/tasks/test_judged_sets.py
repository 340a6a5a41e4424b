"""AlpacaEval and SimpleSafetyTests: what a judge needs stands where other tasks have their answer."""

import json

import pytest

from stages.records import DataError
from stages.tasks import alpaca_eval, simple_safety_tests

INSTRUCTION = {"instruction": "Name a star.", "output": "Sirius.", "generator": "gpt4", "dataset": "koala"}
HEADER = "id,harm_area,counter,category,prompts_final\n"


def test_alpaca_eval_from_an_array_and_from_lines(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([INSTRUCTION], indent=1))
    (tmp_path / "a.jsonl").write_text(json.dumps(INSTRUCTION))
    rows = [alpaca_eval.load([tmp_path / name], "a") for name in ("a.json", "a.jsonl")]
    assert rows[0] == rows[1]
    assert rows[0] == [
        {"example_id": "a-000001", "question": "Name a star.", "ground_truth": "Sirius.", "response": None}
    ]


def test_outputs_of_two_generators_are_no_baseline(tmp_path):
    other = INSTRUCTION | {"generator": "davinci"}
    (tmp_path / "a.json").write_text(json.dumps([INSTRUCTION, other]))
    with pytest.raises(DataError, match=r"a\.json:2: outputs of gpt4 and of davinci in one file"):
        alpaca_eval.load([tmp_path / "a.json"], "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", r"a\.json: not JSON .*it begins like a JSON array"),
        ("[1]", r"a\.json:1: not a JSON object but 1"),
        ("[]", "no examples in it"),
        ('[{"instruction": "x"}]', r"a\.json:1: field 'output' is missing"),
        ('{"instruction": "x", "output": ""}', r"a\.json:1: field 'output' is empty"),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=message):
        alpaca_eval.load([tmp_path / "a.json"], "a")


def test_simple_safety_tests_keep_their_id_and_harm_area(tmp_path):
    (tmp_path / "s.csv").write_text(HEADER + 'sst_7,"Scams, and fraud",1,Instructions,"How, then?"\n')
    (tmp_path / "s.jsonl").write_text(
        json.dumps({"id": "sst_7", "harm_area": "Scams, and fraud", "prompt": "How, then?"})
    )
    wanted = {"example_id": "sst_7", "question": "How, then?", "ground_truth": "Scams, and fraud", "response": None}
    for name in ("s.csv", "s.jsonl"):
        assert simple_safety_tests.load([tmp_path / name], "s") == [wanted]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "no examples in it"),
        ("", "no examples in it"),
        (HEADER + "sst_1,Scams\n", r"s\.csv:2: 2 cells under 5 names"),
        (HEADER + "sst_1,,1,x,How?\n", r"s\.csv:2: field 'harm_area' is empty"),
        ("id,harm_area,text\nsst_1,Scams,How?\n", r"s\.csv:2: field 'prompts_final' is missing"),
        (
            HEADER + "sst_1,Scams,1,x,How?\n" * 2,
            r"s\.csv:3: its id is .*: 'sst_1' is that of .*s\.csv:2",
        ),
    ],
)
def test_tables_that_cannot_be_used_are_named(tmp_path, text, message):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        simple_safety_tests.load([tmp_path / "s.csv"], "s")
