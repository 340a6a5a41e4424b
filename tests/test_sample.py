"""Sampling an evaluation: every row kept, the same whatever interrupts it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from stages import sample
from stages.policy.loading import save_policy
from stages.records import EXAMPLES, ROLLOUTS, DataError, provenance_of, read_table, table, write_table
from stages.strict import ConfigError
from stages.tasks import arithmetic
from stages.tasks.prompts import render
from tests.tiny import qwen, tokenizer

VALUES = {"dataset": "d", "sampling_max_tokens": 6, "sampling_batch_size": 4, "group_size": 2, "seed": 3}


@pytest.fixture
def folder(tmp_path):
    save_policy(qwen(), tokenizer(), tmp_path / "model")
    write_table(tmp_path / "data.parquet", table(arithmetic.examples("validation", 7, 0), EXAMPLES))
    return tmp_path


def run(folder, name="rollouts", compute=None, **changes):
    spec = {"stage": "sample", "name": "zero_shot", "code": "c", "values": VALUES | changes, "compute": compute or {}}
    (folder / "spec.json").write_text(json.dumps(spec))
    out = folder / f"{name}.parquet"
    sample.main(folder / "spec.json", folder / "model", folder / "data.parquet", folder / f"{name}.state", out)
    return read_table(out, ROLLOUTS).to_pylist()


def test_one_row_per_sample_in_order_and_ungraded(folder):
    rows = run(folder)
    examples = read_table(folder / "data.parquet", EXAMPLES).to_pylist()
    assert [(r["example_id"], r["sample_index"]) for r in rows] == [
        (e["example_id"], i) for e in examples for i in (0, 1)
    ]
    first = rows[0]
    assert first["prompt"] == render("r1_zero", question=examples[0]["question"])
    assert first["prompt_token_ids"] == tokenizer()(first["prompt"]).input_ids
    assert first["num_response_tokens"] == len(first["response_token_ids"]) == len(first["sampler_log_probs"])
    assert (first["seed"], first["model"], first["run"]) == (3, "base", "zero_shot")
    assert {row["reward"] for row in rows} == {None}
    assert provenance_of(folder / "rollouts.parquet")["spec"]["values"]["seed"] == 3


def test_an_interrupted_sampling_keeps_what_it_had(folder, monkeypatch):
    straight = run(folder)
    import stages.engines.rollouts as rollouts

    calls = []
    real = rollouts.sample_rows

    def failing(*args, **kwargs):
        calls.append(args[2][0]["example_id"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(rollouts, "sample_rows", failing)
    with pytest.raises(KeyboardInterrupt):
        run(folder, "again")
    assert not (folder / "again.parquet").exists()
    assert run(folder, "again") == straight
    assert calls == [
        "arithmetic-000001",
        "arithmetic-000003",
        "arithmetic-000005",
        "arithmetic-000005",
        "arithmetic-000007",
    ]


def test_generating_is_timed_by_itself_and_summed_over_attempts(folder, monkeypatch):
    """Times made up: a chunk takes 2 s, then 5 s; one that was lost and is made again counts once, as 3 s."""
    ticks = iter([0.0, 2.0, 10.0, 15.0, 20.0, 99.0, 100.0, 103.0])
    monkeypatch.setattr(sample, "time", SimpleNamespace(monotonic=ticks.__next__))
    for places in ((0, 4), (8,), (8,)):
        clock = sample.GenerationClock(folder / "generating.json")
        for place in places:
            with clock(place):
                pass
    assert clock.total() == 2.0 + 5.0 + 3.0


def test_an_evaluation_says_how_long_it_generated_and_that_it_takes_no_optimiser_step(folder):
    rows = run(folder)
    spent = provenance_of(folder / "rollouts.parquet")
    assert 0 < spent["seconds_generating"] < spent["seconds"]
    assert {(row["step"], row["rollout_batch"]) for row in rows} == {(0, None)}


def test_the_first_examples_only_and_other_seeds(folder):
    rows = run(folder, num_examples=2)
    assert len(rows) == 4
    other = run(folder, "other", num_examples=2, seed=4)
    assert [r["response"] for r in rows] != [r["response"] for r in other]


def test_an_empty_dataset_is_an_error(folder):
    write_table(folder / "data.parquet", table([], EXAMPLES))
    with pytest.raises(DataError, match=r"data\.parquet: no examples"):
        run(folder)


def test_an_engine_that_is_not_installed_is_told_before_anything_is_loaded(folder, monkeypatch):
    monkeypatch.setattr("stages.engines.vllm_settings.find_spec", lambda name: None)
    (folder / "model" / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"compute\.engine is vllm, which is not installed"):
        run(folder, compute={"engine": "vllm"})


def broken_in_effect(folder):
    """A policy whose weights are finite, and what it computes of them is not."""
    import torch

    model = qwen()
    with torch.no_grad():
        model.model.norm.weight.fill_(3e38)
    save_policy(model, tokenizer(), folder / "model")


def test_a_policy_whose_log_probs_are_not_finite_is_refused_when_it_is_opened(folder):
    broken_in_effect(folder)
    with pytest.raises(DataError, match=r"cannot be sampled from .*: its own log-probs are not finite"):
        run(folder)
    assert not (folder / "rollouts.parquet").exists()


def test_log_probs_that_are_not_finite_end_an_evaluation(folder, monkeypatch):
    """On what only some prompt brings about; the check at opening, which asks others, saw nothing."""
    broken_in_effect(folder)
    monkeypatch.setattr("stages.engines.transformers.check_sampling", lambda engine: None)
    with pytest.raises(DataError, match=r"model: sampler_log_probs is -?(nan|inf) in a response to example"):
        run(folder)
    assert not (folder / "rollouts.parquet").exists()
