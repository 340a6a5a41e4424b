"""The processes that train one policy together: who leads, who does which part, what all of them know.

Every process runs the same program on the same plan; what differs is the part of a batch that each one computes. The
first process leads: it alone samples, grades and writes files, and shares what the others need. With one process
nothing here communicates. Values travel as JSON, in which a float keeps all its digits, and never as pickles.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed

from stages.console import CONSOLE
from stages.hardware import Compute
from stages.strict import ConfigError

Part = TypeVar("Part")
PATIENCE = timedelta(days=2)  # the others wait while the first one samples; if one dies, torchrun ends them all


@contextmanager
def joined(compute: Compute) -> Iterator[None]:
    """Within the block this process is one of `compute.train_processes`, started by torchrun; one alone needs none.

    Raises ConfigError where more or fewer were started. Only the first process prints.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != compute.train_processes:
        raise ConfigError(
            f"compute.train_processes is {compute.train_processes}, but {started} were started; start the stage with "
            f"`torchrun --nproc-per-node {compute.train_processes} -m stages.…`, or change compute.train_processes"
        )
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if splits(compute) and not distributed.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        alone = {"store": distributed.HashStore(), "rank": 0, "world_size": 1} if started == 1 else {}
        distributed.init_process_group(backend, timeout=PATIENCE, **alone)
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # vLLM's own processes would look for torchrun's store
    # At the end of the program, after what was opened later and may stand on the group (vLLM in this process).
    leave = weakref.finalize(distributed, _leave)
    CONSOLE.quiet = not leads()
    try:
        yield
        if count() > 1:
            # Nobody ends before the first process has written everything, for torchrun takes an end that goes wrong for
            # everybody's. A thread of gloo may still hold tensors of the last call; Python ending around it aborts. A
            # barrier has none, and by then that thread has let go.
            distributed.barrier()
    except BaseException:
        if started > 1:  # the process ends as it is: taking leave could wait for processes that wait for this one
            leave.detach()
        raise


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def splits(compute: Compute) -> bool:
    """Whether weights are kept by FSDP2: over several processes, or in float32 beside a bfloat16 forward pass."""
    return compute.train_processes > 1 or compute.dtype != "float32"


def count() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0


def leads() -> bool:
    return rank() == 0


def dealt(parts: Sequence[Part]) -> list[tuple[Part, float]]:
    """This process's share of the micro-batches `parts`, each with the weight of its loss.

    Sharded layers are fetched by all processes together, so each one must run the model equally often: who would have
    fewer parts repeats the last one at weight 0. The other weights are 1. Neighbours in `parts` run at the same time.
    """
    size = count()
    rounds = -(-len(parts) // size)
    mine = [number * size + rank() for number in range(rounds)]
    return [(parts[min(place, len(parts) - 1)], float(place < len(parts))) for place in mine]


def share(value: Any) -> Any:
    """The first process's JSON-able `value`, on every process; what the others give is not looked at."""
    if count() == 1:
        return value
    size = torch.zeros(1, dtype=torch.int64)
    if leads():
        message = _encoded(value)
        size[0] = len(message)
    distributed.broadcast(size, src=0)
    if not leads():
        message = torch.empty(int(size), dtype=torch.uint8)
    distributed.broadcast(message, src=0)
    return value if leads() else _decoded(message)


def gather(value: Any) -> list[Any]:
    """The JSON-able values of all processes, in order, on every process."""
    if count() == 1:
        return [value]
    message = _encoded(value)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(count())]
    distributed.all_gather(sizes, torch.tensor([len(message)]))
    widest = max(int(size) for size in sizes)
    padded = torch.zeros(widest, dtype=torch.uint8)
    padded[: len(message)] = message
    found = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(found, padded)
    return [_decoded(one[: int(size)]) for one, size in zip(found, sizes, strict=True)]


def totals(sums: dict[str, float]) -> dict[str, float]:
    """Sums over all processes, by name; a process that lacks a name adds nothing to it."""
    parts = gather(sums)
    return {name: sum(part.get(name, 0.0) for part in parts) for part in parts for name in part}


def _encoded(value: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _decoded(message: torch.Tensor) -> Any:
    return json.loads(message.numpy().tobytes())
