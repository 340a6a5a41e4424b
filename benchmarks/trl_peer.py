"""TRL's side of a comparison: its GRPOTrainer on the prompts of a job file. Runs in TRL's own environment.

/path/to/trl/python -m benchmarks.trl_peer job.json
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.blocks import Blocks

REPEATED = {  # names of this project's GRPO settings, and of TRL's that mean the same
    "learning_rate": "learning_rate",
    "lr_schedule": "lr_scheduler_type",
    "adam_beta1": "adam_beta1",
    "adam_beta2": "adam_beta2",
    "weight_decay": "weight_decay",
    "max_grad_norm": "max_grad_norm",
    "train_batch_size": "per_device_train_batch_size",
    "group_size": "num_generations",
    "sampling_max_tokens": "max_completion_length",
    "sampling_temperature": "temperature",
    "seed": "seed",
}


def reward(completion: str, answer: str) -> float:
    """The r1_zero format gate, then equal text: all that answers which are plain integers need."""
    if "</think> <answer>" not in completion or "</answer>" not in completion:
        return 0.0
    return float(completion.split("<answer>")[-1].replace("</answer>", "").strip() == answer)


def trainer_options(values: dict[str, Any]) -> dict[str, Any]:
    """GRPOConfig arguments for this project's settings `values`: the same algorithm, and what is fast on a CPU.

    TRL's defaults recompute activations and use bfloat16; both slow a CPU down and are switched off. Of its caches the
    static one is the faster here; its continuous batching is far slower on a CPU than either. One generation batch
    feeds one optimiser step, as on this project's side; the prompts come in the order given.
    """
    same = {theirs: values[ours] for ours, theirs in REPEATED.items()}
    return same | {
        "steps_per_generation": 1,
        "num_iterations": 1,
        "beta": 0.0,
        "loss_type": "grpo",
        "scale_rewards": "group",
        "top_p": 1.0,
        "top_k": 0,
        "cache_implementation": "static",
        "generation_kwargs": {"min_new_tokens": values["sampling_min_tokens"], "stop_strings": values["stop"]},
        "shuffle_dataset": False,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def make_trainer(job: dict[str, Any], output: Path, reward_function: Any, callbacks: list[Any]) -> Any:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    # Transformers wants the tokenizer for stop strings, and TRL has no setting that passes it on.
    model.generate = functools.partial(model.generate, tokenizer=tokenizer)
    steps = len(job["stream"]) * job["values"]["group_size"] // job["values"]["train_batch_size"]
    return GRPOTrainer(
        model=model,
        reward_funcs=reward_function,
        args=GRPOConfig(output_dir=str(output), max_steps=steps, **trainer_options(job["values"])),
        train_dataset=Dataset.from_list(job["stream"]),
        processing_class=tokenizer,
        callbacks=callbacks,
    )


def about() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("trl", "torch", "transformers")} | {"python": sys.version.split()[0]}


def main(job_file: Path) -> None:
    from transformers import TrainerCallback

    blocks = Blocks(about())

    class InBlocks(TrainerCallback):
        """Stops before each block until told to go on."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.left = blocks.next()

        def on_step_end(self, _args: Any, _state: Any, control: Any, **__: Any) -> None:
            self.left -= 1
            if self.left == 0:
                self.left = blocks.next()
                control.should_training_stop = self.left == 0

    def graded(completions: list[str], answer: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        rewards = [reward(completion, right) for completion, right in zip(completions, answer, strict=True)]
        blocks.record(rewards, [len(ids) for ids in completion_ids])
        return rewards

    make_trainer(json.loads(job_file.read_text()), job_file.parent / "trl", graded, [InBlocks()]).train()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
