"""Small runs of fine-tuning and GRPO, in this process: their values, and a policy that has learned a little."""

from __future__ import annotations

import shutil
from pathlib import Path

from stages import grpo, sft, training
from stages.files import Files
from tests.stage_runs import stage_files, write_inputs

COMMON = {
    "train": "train",
    "validation": "validation",
    "learning_rate": 1e-3,
    "sampling_max_tokens": 12,
    "eval_every": 2,
    "num_validation_examples": 4,
    "checkpoint_every": 1,
}
VALUES = {
    "sft": COMMON | {"n_sft_steps": 4, "train_batch_size": 4, "micro_batch_tokens": 400, "lr_schedule": "cosine"},
    "grpo": COMMON
    | {"n_grpo_steps": 4, "rollout_batch_size": 8, "train_batch_size": 8, "group_size": 4}
    | {"gradient_accumulation_steps": 2, "lr_schedule": "linear", "warmup_fraction": 0.5},
    "off_policy": COMMON
    | {"n_grpo_steps": 4, "rollout_batch_size": 8, "train_batch_size": 4, "group_size": 4}
    | {"gradient_accumulation_steps": 2, "epochs_per_rollout_batch": 2, "loss_type": "grpo_clip"},
}
STEPS = {"sft": sft.sft_step, "grpo": grpo.grpo_step, "off_policy": grpo.grpo_step}


def files_of(inputs: Path, out: Path, kind: str, **changes) -> Files:
    return stage_files(inputs, out, "sft" if kind == "sft" else "grpo", VALUES[kind] | changes)


def run(files: Files, kind: str, step=None) -> None:
    stage = "sft" if kind == "sft" else "grpo"
    total = sft.total_steps if kind == "sft" else (lambda settings, _: settings.n_grpo_steps)
    with training.opened(stage, files, total) as held:
        training.train(held, step or STEPS[kind])


def write_warm_inputs(folder: Path) -> None:
    """A policy that has learned to answer at once, often wrongly, so that rewards differ within a group."""
    write_inputs(folder, validation=6)
    learning = {"n_sft_steps": 60, "learning_rate": 1e-2, "train_batch_size": 12}
    files = files_of(folder, folder / "warm", "sft", **learning, eval_every=60, checkpoint_every=60)
    run(files, "sft")
    shutil.rmtree(folder / "model")
    files.checkpoint.rename(folder / "model")
