"""What jobs are told about the hardware, and how many GPUs one takes: what the workflow asks a cluster for, and what
the job then counts as its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from stages.strict import Positive, Strict, parse


class Compute(Strict):
    """How stages run on the hardware: the section `compute` of a config file, the same for every stage.

    `engine` samples. `placement`, `gpu_memory_utilization` and `tensor_parallel_size` are about vLLM alone.
    `attention: auto` takes flash_attention_2 where it is installed and the policy is bfloat16 on a GPU, else sdpa.
    With `train_processes` above 1 the training stages run under torchrun and share weights and gradients (FSDP2).
    """

    engine: Literal["transformers", "vllm"] = "transformers"
    placement: Literal["in_process", "same_gpu", "separate_gpu"] = "in_process"
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.85
    tensor_parallel_size: Positive = 1
    dtype: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["auto", "sdpa", "flash_attention_2", "eager"] = "auto"
    gradient_checkpointing: bool = False
    compile: bool = False
    train_processes: Positive = 1

    @model_validator(mode="after")
    def placements_of_vllm(self) -> Compute:
        if self.engine != "vllm" and (self.placement != "in_process" or self.tensor_parallel_size > 1):
            raise ValueError("placement and tensor_parallel_size are about engine vllm; leave them out, or choose it")
        return self


def compute_of(plan: dict[str, Any]) -> Compute:
    """What the specification of a job that runs a model says about the hardware; raises ConfigError naming the key."""
    return parse(Compute, plan.get("compute", {}), "compute")


def training_gpus(compute: Compute) -> int:
    """GPUs of a job that trains: one per process; a sampler on GPUs of its own adds those."""
    if compute.placement == "separate_gpu":
        return compute.train_processes + compute.tensor_parallel_size
    return max(compute.train_processes, compute.tensor_parallel_size)


def sampling_gpus(compute: Compute) -> int:
    """GPUs of a job that only samples: vLLM may split the weights over several."""
    return compute.tensor_parallel_size
