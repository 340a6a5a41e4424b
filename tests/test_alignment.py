"""Instruction tuning and DPO as stages: resumed bit for bit, independent of the split, and what they keep."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from stages import dpo, instruct, training
from stages.examples import drawn
from stages.policy import preference
from stages.policy.loading import save_policy
from stages.records import (
    INSTRUCTIONS,
    METRICS,
    PREFERENCES,
    ROLLOUTS,
    DataError,
    read_table,
    table,
    write_table,
)
from stages.strict import ConfigError
from stages.tasks.arithmetic_alignment import instructions, preferences
from tests.gradients import assert_same_way
from tests.stage_runs import Stop, assert_same_results, in_two_processes, stage_files
from tests.tiny import qwen, tokenizer

COMMON = {"train": "train", "validation": "validation", "eval_every": 2, "sampling_max_tokens": 6}
COMMON |= {"num_generations": 2, "checkpoint_every": 1}
VALUES = {
    "instruct": COMMON | {"learning_rate": 1e-2, "seq_length": 64, "train_batch_size": 4, "n_epochs": 2},
    "dpo": COMMON | {"learning_rate": 1e-3, "train_batch_size": 4, "n_epochs": 3},
}
PROGRAMS = {"instruct": (instruct.tune, instruct.instruct_step), "dpo": (dpo.prefer, dpo.dpo_step)}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    save_policy(qwen(), tokenizer(), folder / "model")
    for split, size in (("train", 10), ("validation", 6)):
        rows = instructions(split, size, 0.0, 0, split), preferences(split, size, 0, split)
        for stage, found, schema in zip(VALUES, rows, (INSTRUCTIONS, PREFERENCES), strict=True):
            write_table(folder / f"{stage}.{split}", table(found, schema))
    return folder


def files_of(inputs: Path, out: Path, stage: str, compute: dict | None = None, **changes) -> training.Files:
    data = f"{stage}.train", f"{stage}.validation"
    return stage_files(inputs, out, stage, VALUES[stage] | changes, compute, data)


def run(files: training.Files, stage: str, stop_before: int | None = None) -> list[dict]:
    """The stage, which dies before step `stop_before`; METRICS rows."""
    program, step = PROGRAMS[stage]

    def stopping(held, **data):
        if held.step == stop_before:
            raise Stop
        return step(held, **data)

    program(files, stopping)
    return read_table(files.metrics, METRICS).to_pylist()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("stage", VALUES)
@pytest.mark.parametrize("checkpoint_every", [1, 3])
def test_a_run_that_dies_and_goes_on_equals_one_that_does_not(inputs, tmp_path, stage, checkpoint_every):
    straight = files_of(inputs, tmp_path / "straight", stage, checkpoint_every=checkpoint_every)
    run(straight, stage)
    broken = files_of(inputs, tmp_path / "broken", stage, checkpoint_every=checkpoint_every)
    for limit in (0, 1, 2, 3, 4):
        with pytest.raises(Stop):
            run(broken, stage, limit)
        assert not broken.metrics.exists()
    run(broken, stage)
    assert_same_results(straight, broken)
    assert [path.name for path in broken.state.iterdir()] == ["lock"]


@pytest.mark.parametrize("stage", VALUES)
def test_the_split_into_micro_batches_changes_nothing(inputs, tmp_path, stage):
    found = []
    for name, how in (("whole", {}), ("split", {"micro_batch_tokens": 64, "share_prompts": False})):
        files = files_of(inputs, tmp_path / name, stage, n_epochs=1, num_generations=0, **how)
        found.append([row for row in run(files, stage) if row["kind"] == "train"])
    for one, other in zip(*found, strict=True):
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


@pytest.mark.parametrize("stage", VALUES)
def test_two_processes_are_as_good_as_one(inputs, tmp_path, stage):
    alone = files_of(inputs, tmp_path / "alone", stage, micro_batch_tokens=256, n_epochs=1)
    rows = run(alone, stage)
    pair = files_of(inputs, tmp_path / "pair", stage, {"train_processes": 2}, micro_batch_tokens=256, n_epochs=1)
    done = in_two_processes(pair, stage)
    assert done.returncode == 0, done.stderr
    for one, other in zip(rows, read_table(pair.metrics, METRICS).to_pylist(), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        if one["kind"] == "train":
            assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
    assert_same_way(inputs / "model", pair.checkpoint, alone.checkpoint)


def test_tuning_lowers_the_held_out_loss_and_says_so(inputs, tmp_path):
    files = files_of(inputs, tmp_path, "instruct", n_epochs=6)
    rows = [row for row in run(files, "instruct") if row["kind"] == "validation"]
    assert rows[-1]["loss"] < 0.8 * rows[0]["loss"]
    assert rows[-1]["perplexity"] == pytest.approx(torch.tensor(rows[-1]["loss"]).exp().item(), rel=1e-4)
    answers = read_table(files.generations, ROLLOUTS).to_pylist()
    assert len(answers) == 2 * len(rows)
    assert {row["verdict"] for row in answers} == {None}
    held_out = drawn(instructions("validation", 6, 0.0, 0, "validation"), 2)
    assert [row["ground_truth"] for row in answers[:2]] == [row["response"] for row in held_out]
    assert answers[0]["prompt"].endswith(f"{held_out[0]['prompt']}\n\n### Response:\n")


def test_dpo_starts_from_its_reference_and_learns_the_preferences(inputs, tmp_path):
    rows = run(files_of(inputs, tmp_path, "dpo", n_epochs=8, micro_batch_tokens=600), "dpo")
    before = rows[0]
    assert (before["kind"], before["step"]) == ("validation", 0)
    assert (before["preference_accuracy"], before["reward_margin"]) == (0.5, 0.0)  # compared with itself, to the bit
    first, *_, last = (row for row in rows if row["kind"] == "train")
    assert first["loss"] == pytest.approx(torch.log(torch.tensor(2.0)).item(), abs=1e-4)
    assert first["reward_margin"] == pytest.approx(0.0, abs=1e-4)
    assert last["preference_accuracy"] == 1.0
    assert last["loss"] < 0.5 * first["loss"]
    assert last["chosen_log_prob"] - last["rejected_log_prob"] > first["chosen_log_prob"] - first["rejected_log_prob"]


def test_dpo_keeps_the_best_checkpoint_not_the_last(inputs, tmp_path, monkeypatch):
    """Accuracies are set by hand; the weights of the best validation come out, also of a run that died after it."""
    scores = {0: 0.5, 2: 0.75, 4: 1.0, 6: 1.0, 8: 0.25}
    seen = {}

    def measured(held, data):
        row, answers = kept(held, data)
        seen[held.updates] = {key: value.clone() for key, value in held.model.state_dict().items()}
        return row | {"preference_accuracy": scores[held.updates]}, answers

    kept = dpo.preferences
    monkeypatch.setattr(dpo, "preferences", measured)
    files = files_of(inputs, tmp_path, "dpo", checkpoint_every=3)
    with pytest.raises(Stop):
        run(files, "dpo", stop_before=5)
    assert sorted(path.name for path in files.state.glob("best_*")) == ["best_00000002", "best_00000004"]
    run(files, "dpo")
    found = weights(files.checkpoint)
    assert all(torch.equal(value, seen[4][key]) for key, value in found.items())
    assert any(not torch.equal(value, seen[8][key]) for key, value in found.items())


def test_the_reference_is_computed_once_and_survives_a_restart(inputs, tmp_path, monkeypatch):
    files = files_of(inputs, tmp_path, "dpo")
    with pytest.raises(Stop):
        run(files, "dpo", stop_before=3)
    known = json.loads((files.state / "reference.json").read_text())["sets"]
    assert list(map(len, known)) == [10, 6]

    scored = []
    real = preference.all_log_probs

    def counting(model, pairs, *rest):
        scored.append(len(pairs))
        return real(model, pairs, *rest)

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(preference, "all_log_probs", counting)
        run(files, "dpo", stop_before=5)
    assert scored == [6]  # the validation pairs at step 4, and nothing else


def test_the_state_of_a_run_from_another_policy_is_not_resumed(inputs, tmp_path):
    for number in (0, 1):
        save_policy(qwen(seed=number), tokenizer(), tmp_path / f"policy_{number}")
    files = files_of(inputs, tmp_path / "run", "dpo")
    with pytest.raises(Stop):
        run(training.Files(**{**asdict(files), "model": tmp_path / "policy_0"}), "dpo", stop_before=3)
    other = training.Files(**{**asdict(files), "model": tmp_path / "policy_1"})
    first = next(row for row in run(other, "dpo") if row["kind"] == "train")
    assert first["step"] == 1
    assert first["reward_margin"] == pytest.approx(0.0, abs=1e-4)
    straight = files_of(inputs, tmp_path / "straight", "dpo")
    straight = training.Files(**{**asdict(straight), "model": tmp_path / "policy_1"})
    run(straight, "dpo")
    assert_same_results(straight, other)


def test_what_cannot_be_trained_on_is_named(inputs, tmp_path):
    with pytest.raises(DataError, match=r"instruct\.train: not enough text for one chunk of seq_length 100000"):
        run(files_of(inputs, tmp_path / "a", "instruct", seq_length=100_000), "instruct")
    with pytest.raises(DataError, match=r"dpo\.train: no pair has at most 5 tokens \(max_document_tokens"):
        run(files_of(inputs, tmp_path / "b", "dpo", max_document_tokens=5), "dpo")
    with pytest.raises(ConfigError, match="seq_length 513 exceeds the policy's 512 positions; lower it"):
        run(files_of(inputs, tmp_path / "d", "instruct", seq_length=513), "instruct")
    mixed = files_of(inputs, tmp_path / "c", "dpo")
    mixed = training.Files(**{**asdict(mixed), "train": inputs / "instruct.train"})
    with pytest.raises(DataError, match=r"instruct\.train: column 'chosen' is missing"):
        run(mixed, "dpo")


def test_a_held_out_loss_beyond_all_floats_is_a_diverged_run(tmp_path):
    """exp of more than 709 nats is no float64: a result, infinite, that ends the run and says so."""
    from stages import instruct
    from stages.policy.loading import save_policy
    from stages.records import INSTRUCTIONS, METRICS, read_table, table, write_table
    from stages.tasks import arithmetic_alignment
    from tests.stage_runs import stage_files
    from tests.tiny import qwen, tokenizer

    save_policy(qwen(), tokenizer(), tmp_path / "model")
    for name, split in (("t", "train"), ("v", "validation")):
        rows = arithmetic_alignment.instructions(split, 8, 0.0, 0, name)
        write_table(tmp_path / f"{name}.parquet", table(rows, INSTRUCTIONS))
    values = {"train": "t", "validation": "v", "learning_rate": 1e3, "lr_schedule": "constant", "warmup_fraction": 0.0}
    values |= {"seq_length": 32, "train_batch_size": 4, "num_generations": 0, "eval_every": 1}
    files = stage_files(tmp_path, tmp_path / "out", "instruct", values, data=("t.parquet", "v.parquet"))
    instruct.tune(files)
    status = json.loads(files.status.read_text())
    assert status["status"] == "diverged"
    assert "perplexity is inf at step" in status["reason"]
    assert read_table(files.metrics, METRICS)["perplexity"].to_pylist()[-1] == float("inf")
