"""What a job takes of the machine while it runs, for the account of hours."""

from __future__ import annotations

import os

import torch


def taken(gpus: int) -> dict[str, int]:
    """`gpus` and `cores` of this job: of the GPUs that it is meant to use those that are there, and its threads.

    A job of several processes (torchrun says how many) counts the threads of all.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    return {"gpus": min(gpus, torch.cuda.device_count()), "cores": processes * torch.get_num_threads()}
