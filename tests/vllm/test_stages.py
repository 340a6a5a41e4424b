"""Stages that sample through vLLM, as programs: a policy learns by GRPO, an evaluation is the Transformers engine's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stages import sft, training
from stages.policy.loading import save_policy
from stages.records import EXAMPLES, METRICS, ROLLOUTS, read_table, table, write_table
from stages.tasks import arithmetic
from tests.stage_runs import ONE_THREAD, assert_same_results, stage_files, write_spec
from tests.tiny import qwen, tokenizer

COMMON = {"train": "train", "validation": "validation", "sampling_max_tokens": 12, "num_validation_examples": 4}
WARM = {"n_sft_steps": 80, "train_batch_size": 24, "micro_batch_tokens": 4000, "learning_rate": 5e-3, "eval_every": 80}
GRPO = {
    "n_grpo_steps": 25,
    "rollout_batch_size": 96,
    "train_batch_size": 96,
    "group_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "eval_every": 25,
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """Twelve questions, and a policy that has learned to answer them at once, and rightly one time in four."""
    folder = tmp_path_factory.mktemp("inputs")
    rows = arithmetic.examples("train", 12, 0)
    answers = [[row["ground_truth"], *(str((5 * i + 7 * k) % 40) for k in range(3))] for i, row in enumerate(rows)]
    traces = [
        row | {"example_id": f"{row['example_id']}/{k}", "response": f" </think> <answer> {answer} </answer>"}
        for row, guesses in zip(rows, answers, strict=True)
        for k, answer in enumerate(guesses)
    ]
    save_policy(qwen(head_size=32), tokenizer(), folder / "model")
    write_table(folder / "validation.parquet", table(rows[:6], EXAMPLES))
    write_table(folder / "train.parquet", table(traces, EXAMPLES))
    warm = stage_files(folder, folder / "warm", "sft", COMMON | WARM)
    with training.opened("sft", warm, sft.total_steps) as held:
        training.train(held, sft.sft_step)
    write_table(folder / "train.parquet", table(rows, EXAMPLES))
    (folder / "model").rename(folder / "random")
    warm.checkpoint.rename(folder / "model")
    return folder


DYING = """
import sys
from stages import grpo

whole = grpo.grpo_step

def dying(run):
    return sys.exit(9) if run.step == 2 else whole(run)

grpo.grpo_step = dying
grpo.app()
"""


def program(start: list[str], options: dict[str, Path], status: int = 0) -> str:
    """Run Python as `start` says, with the stage's options; what it wrote to stderr."""
    command = [sys.executable, *start]
    for option, path in options.items():
        command += [f"--{option}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD)
    assert done.returncode == status, done.stderr[-3000:]
    return done.stderr


def grpo_files(inputs: Path, out: Path, compute: dict, **changes) -> tuple[training.Files, dict[str, Path]]:
    """The files of a GRPO run, and the options that name them."""
    made = stage_files(inputs, out, "grpo", COMMON | GRPO | changes, {"engine": "vllm"} | compute)
    return made, {key: value for key, value in vars(made).items() if isinstance(value, Path)}


def train_rows(made: training.Files) -> list[dict]:
    """The METRICS rows of the optimiser steps of a finished run."""
    assert json.loads(made.status.read_text())["status"] == "finished"
    return [row for row in read_table(made.metrics, METRICS).to_pylist() if row["kind"] == "train"]


def test_a_policy_learns_through_vllm(inputs, tmp_path):
    """The reward climbs, and in every step the trainer finds the log-probs that vLLM reported: no weights are stale.

    Entropies, which vLLM does not tell, are the trainer's.
    """
    made, options = grpo_files(inputs, tmp_path, {})
    program(["-m", "stages.grpo"], options)
    rows = train_rows(made)
    rewards = [row["answer_reward"] for row in rows]
    assert sum(rewards[-5:]) / 5 > rewards[0] + 0.2
    assert max(row["sampler_gap"] for row in rows if row["sampler_gap"] is not None) < 2e-3
    assert rows[0]["token_entropy"] > 0
    assert {row["finish_reason"] for row in read_table(made.rollouts, ROLLOUTS).to_pylist()} >= {"stop"}


def test_a_run_that_died_goes_on_as_if_it_had_not(inputs, tmp_path):
    """Weights, rollouts and metrics bit for bit: the new process pushes the checkpoint before it samples."""
    changes = {"n_grpo_steps": 4, "eval_every": 2, "checkpoint_every": 1}
    straight, options = grpo_files(inputs, tmp_path / "straight", {}, **changes)
    program(["-m", "stages.grpo"], options)
    broken, options = grpo_files(inputs, tmp_path / "broken", {}, **changes)
    program(["-c", DYING], options, status=9)
    assert not broken.status.exists()
    assert "going on from step 2" in program(["-m", "stages.grpo"], options)
    assert_same_results(straight, broken)


def test_the_gap_of_bfloat16_is_logged_and_corrected(inputs, tmp_path):
    changes = {"n_grpo_steps": 2, "eval_every": 2, "sampler_ratio_cap": 2.0}
    made, options = grpo_files(inputs, tmp_path, {"dtype": "bfloat16"}, **changes)
    program(["-m", "stages.grpo"], options)
    for row in train_rows(made):
        assert row["sampler_gap"] > 1e-4
        assert row["sampler_weight"] == pytest.approx(1.0, abs=0.1)
        assert row["sampler_capped"] < 0.1


def test_a_greedy_evaluation_is_the_same_through_both_engines(inputs, tmp_path):
    found = {}
    for engine in ("transformers", "vllm"):
        values = {"dataset": "validation", "sampling_temperature": 0.0, "sampling_max_tokens": 12}
        out = tmp_path / engine
        options = {
            "spec": write_spec(out, "sample", values, {"engine": engine}),
            "model": inputs / "model",
            "data": inputs / "validation.parquet",
            "state": out / "state",
            "rollouts": out / "rollouts.parquet",
        }
        program(["-m", "stages.sample"], options)
        found[engine] = read_table(options["rollouts"], ROLLOUTS).to_pylist()
    for one, other in zip(*found.values(), strict=True):
        assert one["response_token_ids"] == other["response_token_ids"]
        assert (one["response"], one["finish_reason"]) == (other["response"], other["finish_reason"])
        assert one["sampler_log_probs"] == pytest.approx(other["sampler_log_probs"], abs=2e-3)
