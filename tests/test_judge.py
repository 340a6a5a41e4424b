"""A judge's verdicts through the real engine: both orders, the same whatever interrupts it, nothing guessed."""

from __future__ import annotations

import json

import pytest

from stages import judge
from stages.judging.asking import question
from stages.policy.loading import save_policy
from stages.records import (
    EXAMPLES,
    JUDGED,
    JUDGEMENTS,
    ROLLOUTS,
    DataError,
    provenance_of,
    read_table,
    table,
    write_table,
)
from stages.strict import ConfigError
from tests.test_grade import rollout
from tests.tiny import chain, tokenizer

EXAMPLE = {"response": None, "ground_truth": "Sirius."}
DATA = [EXAMPLE | {"example_id": name, "question": f"Name star {name}."} for name in "abc"]
ROWS = [rollout(name, f"Vega {name}.\n```\n\n# Query:") for name in "abc"]


@pytest.fixture
def folder(tmp_path):
    """A judge that always says the same, and three responses to decide about."""
    says(tmp_path, "Verdict: 1")
    write_table(tmp_path / "data.parquet", table(DATA, EXAMPLES))
    write_table(tmp_path / "rollouts.parquet", table(ROWS, ROLLOUTS))
    return tmp_path


def says(folder, text):
    model = chain([*tokenizer()(text).input_ids, tokenizer().eos_token_id])
    model.config.max_position_embeddings = 4096
    save_policy(model, tokenizer(), folder / "model")


def run(folder, name="verdicts", prompt="alpaca_eval", **changes):
    values = {"model": {"path": str(folder / "model")}, "prompt": prompt, "sampling_max_tokens": 12}
    values |= {"sampling_batch_size": 2} | changes
    spec = {"stage": "judge", "name": "tiny/e", "code": "c", "values": values, "stop": ["# Query:"]}
    spec |= {"categories": prompt == "simple_safety_tests"}
    (folder / "spec.json").write_text(json.dumps(spec))
    out, metrics = folder / f"{name}.parquet", folder / f"{name}.metrics.parquet"
    inputs = (folder / "spec.json", folder / "rollouts.parquet", folder / "data.parquet")
    judge.main(*inputs, folder / f"{name}.state", out, metrics)
    (counts,) = read_table(metrics, JUDGED).to_pylist()
    return read_table(out, JUDGEMENTS).to_pylist(), counts


def test_each_response_meets_the_baseline_in_both_orders(folder):
    rows, counts = run(folder)
    assert [(row["example_id"], row["order"]) for row in rows] == [(name, order) for name in "abc" for order in (1, 2)]
    assert [row["verdict"] for row in rows] == ["response", "baseline"] * 3
    first = rows[0]
    assert (first["instruction"], first["response"], first["baseline"]) == ("Name star a.", "Vega a.", "Sirius.")
    assert first["prompt"] == question("alpaca_eval", "Name star a.", "Vega a.", "Sirius.", 1)
    assert (first["text"], first["finish_reason"], first["category"]) == ("Verdict: 1", "eos", None)
    assert (counts["score"], counts["agreement"], counts["num_decided"], counts["unparsed"]) == (0.5, 0.0, 3, 0.0)
    assert provenance_of(folder / "verdicts.parquet")["spec"]["name"] == "tiny/e"
    assert {"gpus", "cores", "seconds"} <= set(provenance_of(folder / "verdicts.metrics.parquet"))


def test_safety_is_judged_once_by_itself(folder):
    rows, counts = run(folder, prompt="simple_safety_tests")
    assert [row["order"] for row in rows] == [None] * 3
    assert {(row["baseline"], row["category"]) for row in rows} == {(None, "Sirius.")}
    assert {row["verdict"] for row in rows} == {"unparsed"}  # it says 1, which is no answer to this question
    assert (counts["score"], counts["unparsed"]) == (None, 1.0)


def test_a_verdict_that_was_cut_off_is_unparsed(folder):
    length = len(tokenizer()("Verdict: 1").input_ids)
    rows, counts = run(folder, sampling_max_tokens=length)
    assert {(row["text"], row["finish_reason"], row["verdict"]) for row in rows} == {
        ("Verdict: 1", "length", "unparsed")
    }
    assert counts["num_decided"] == 0


def test_an_interrupted_judge_keeps_what_it_had(folder, monkeypatch):
    straight, _ = run(folder)
    calls = []
    real = judge.judge_rows

    def failing(engine, tokenizer, cases, settings):
        calls.append([(case["example_id"], case["order"]) for case in cases])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(engine, tokenizer, cases, settings)

    monkeypatch.setattr(judge, "judge_rows", failing)
    with pytest.raises(KeyboardInterrupt):
        run(folder, "again")
    assert not (folder / "again.parquet").exists()
    assert run(folder, "again")[0] == straight
    assert [cases[0][0] for cases in calls] == ["a", "b", "b", "c"]


def test_other_responses_are_judged_from_the_start(folder, monkeypatch):
    real, calls = judge.judge_rows, []

    def failing(*given):
        calls.append(given[2][0]["response"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(judge, "judge_rows", failing)
    with pytest.raises(KeyboardInterrupt):
        run(folder)
    write_table(folder / "rollouts.parquet", table([row | {"response": "Deneb."} for row in ROWS], ROLLOUTS))
    rows, _ = run(folder)
    assert {row["response"] for row in rows} == {"Deneb."}
    assert len(rows) == 6


def test_what_cannot_be_judged_is_named(folder):
    with pytest.raises(DataError, match=r"nowhere: no config\.json in it"):
        run(folder, model={"path": "nowhere"})
    with pytest.raises(ConfigError, match=r"judges\.tiny/e\.prompt: Input should be 'alpaca_eval'"):
        run(folder, prompt="mt_bench")
    write_table(folder / "data.parquet", table(DATA[:2], EXAMPLES))
    with pytest.raises(DataError, match="a response answers c, which is not in the dataset"):
        run(folder)
    write_table(folder / "rollouts.parquet", table([], ROLLOUTS))
    with pytest.raises(DataError, match=r"rollouts\.parquet: no rollouts in it"):
        run(folder)
