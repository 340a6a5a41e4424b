"""How many GPUs a job takes: what the workflow asks a cluster for, and what the job then counts as its own."""

from __future__ import annotations

from stages.config import Compute


def training_gpus(compute: Compute) -> int:
    """GPUs of a job that trains: one per process; a sampler on GPUs of its own adds those."""
    if compute.placement == "separate_gpu":
        return compute.train_processes + compute.tensor_parallel_size
    return max(compute.train_processes, compute.tensor_parallel_size)


def sampling_gpus(compute: Compute) -> int:
    """GPUs of a job that only samples: vLLM may split the weights over several."""
    return compute.tensor_parallel_size
