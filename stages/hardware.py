"""How many GPUs a job takes: what the workflow asks a cluster for, and what the job says it had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stages.config import Compute
from stages.strict import parse


def training_gpus(compute: Compute) -> int:
    """GPUs of a job that trains: one per process; a sampler on GPUs of its own adds those."""
    if compute.placement == "separate_gpu":
        return compute.train_processes + compute.tensor_parallel_size
    return max(compute.train_processes, compute.tensor_parallel_size)


def sampling_gpus(compute: Compute) -> int:
    """GPUs of a job that only samples: weights of vLLM may be split over several."""
    return compute.tensor_parallel_size


def taken(plan: Mapping[str, Any], wanted: Callable[[Compute], int]) -> dict[str, int]:
    """`gpus` and `cores` of the running job, whose specification is `plan`.

    GPUs are those it wants, as far as they are there; cores are the threads it was given.
    """
    import torch

    compute = parse(Compute, plan.get("compute", {}), "compute")
    return {"gpus": min(wanted(compute), torch.cuda.device_count()), "cores": torch.get_num_threads()}
