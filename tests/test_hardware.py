"""GPUs of a job, by hand: one per training process, and those of a sampler that keeps its own."""

from __future__ import annotations

import pytest

from stages.hardware import Compute, sampling_gpus, training_gpus
from stages.policy.taken import taken
from stages.store import provenance


@pytest.mark.parametrize(
    ("compute", "training", "sampling"),
    [
        ({}, 1, 1),
        ({"train_processes": 4}, 4, 1),
        ({"engine": "vllm", "placement": "same_gpu"}, 1, 1),
        ({"engine": "vllm", "placement": "separate_gpu"}, 2, 1),
        ({"engine": "vllm", "placement": "separate_gpu", "train_processes": 4, "tensor_parallel_size": 2}, 6, 2),
    ],
)
def test_a_job_asks_for_the_gpus_that_compute_takes(compute, training, sampling):
    settings = Compute.model_validate(compute)
    assert (training_gpus(settings), sampling_gpus(settings)) == (training, sampling)


def test_a_job_says_what_it_had_and_not_what_it_asked_for(monkeypatch):
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert taken(2) == {"gpus": 2, "cores": 3}  # of eight that a workstation shows to every job
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert taken(2) == {"gpus": 0, "cores": 6}


def test_outputs_name_the_slurm_job_that_made_them(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    assert provenance({})["job"] == "4711"
    monkeypatch.delenv("SLURM_JOB_ID")
    assert provenance({})["job"] == ""
