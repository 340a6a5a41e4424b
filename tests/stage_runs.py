"""Training stages run by tests: their files, their program in one process or two, and whether two runs are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from stages.files import Files
from stages.policy.loading import save_policy
from stages.records import EXAMPLES, METRICS, ROLLOUTS, TIMINGS, read_table, table, write_table
from stages.tasks import arithmetic
from tests.tiny import qwen, tokenizer

ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


class Stop(Exception):
    """What a run dies of."""


def write_inputs(folder: Path, validation: int) -> None:
    """A policy that knows nothing, twelve questions with answers to imitate, and `validation` others."""
    rows = arithmetic.examples("train", 12, 0)
    answers = [row | {"response": f" </think> <answer> {row['ground_truth']} </answer>"} for row in rows]
    write_table(folder / "train.parquet", table(answers, EXAMPLES))
    write_table(folder / "validation.parquet", table(arithmetic.examples("validation", validation, 0), EXAMPLES))
    save_policy(qwen(), tokenizer(), folder / "model")


def write_spec(folder: Path, stage: str, values: dict[str, Any], compute: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    told = {"stage": stage, "name": f"test/{stage}", "code": "stages@0", "values": values, "compute": compute or {}}
    (folder / "spec.json").write_text(json.dumps(told))
    return folder / "spec.json"


def stage_files(
    inputs: Path,
    out: Path,
    stage: str,
    values: dict[str, Any],
    compute: dict[str, Any] | None = None,
    data: tuple[str, str] = ("train.parquet", "validation.parquet"),
) -> Files:
    """The files of a run in `out` on the policy and `data` of the folder `inputs`; its specification is written."""
    return Files(
        spec=write_spec(out, stage, values, compute),
        model=inputs / "model",
        train=inputs / data[0],
        validation=inputs / data[1],
        state=out / "state",
        metrics=out / "metrics.parquet",
        generations=out / "generations.parquet",
        checkpoint=out / "model",
        status=out / "status.json",
        rollouts=out / "rollouts.parquet" if stage == "grpo" else None,
    )


def options(files: Files) -> list[str]:
    """The files as the command line of a stage names them."""
    named = {name: path for name, path in asdict(files).items() if isinstance(path, Path)}
    return [str(part) for name, path in named.items() for part in (f"--{name}", path)]


def two_processes(files: Files, stage: str) -> list[str]:
    """The stage's program under torchrun, as the workflow starts it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return [*command, "-m", f"stages.{stage}", *options(files)]


def in_two_processes(files: Files, stage: str) -> subprocess.CompletedProcess:
    return subprocess.run(two_processes(files, stage), env=ONE_THREAD, capture_output=True, text=True)


def assert_same_results(left: Files, right: Files) -> None:
    """Bit for bit, seconds excepted."""
    weights, others = (load_file(files.checkpoint / "model.safetensors") for files in (left, right))
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[key], others[key]) for key in weights)
    one, two = (read_table(files.metrics, METRICS).drop_columns([*TIMINGS]) for files in (left, right))
    assert one.equals(two)
    assert read_table(left.generations, ROLLOUTS).equals(read_table(right.generations, ROLLOUTS))
    if left.rollouts:
        assert read_table(left.rollouts, ROLLOUTS).equals(read_table(right.rollouts, ROLLOUTS))
