"""What vLLM is told: plain values, tested where vLLM is not installed."""

from __future__ import annotations

import json
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from stages import training
from stages.engines import vllm_settings
from stages.engines.opening import check_engine
from stages.engines.protocol import Sampling
from stages.engines.vllm_settings import PLACEMENTS, engine_arguments, finish_reason, sampling_arguments
from stages.hardware import Compute
from stages.records import EXAMPLES, table, write_table
from stages.strict import ConfigError
from stages.tasks import arithmetic


def vllm(**changes) -> Compute:
    return Compute(engine="vllm", **changes)


@pytest.fixture
def machine(monkeypatch):
    """`machine(gpus)`: a machine with vLLM and so many GPUs."""

    def made(gpus: int) -> None:
        monkeypatch.setattr(vllm_settings, "find_spec", lambda name: ModuleSpec(name, None))
        monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)

    return made


def test_without_vllm_the_error_names_the_key_and_the_extra(monkeypatch):
    monkeypatch.setattr(vllm_settings, "find_spec", lambda name: None)
    for either in (True, False):
        with pytest.raises(ConfigError, match=r"compute.engine is vllm, which is not installed.*\[gpu\].*\[vllm-cpu\]"):
            check_engine(vllm(), training=either)
    check_engine(Compute(), training=True)


def test_training_tells_it_before_it_loads_a_model(tmp_path, monkeypatch):
    """The policy's folder is not even there."""
    monkeypatch.setattr(vllm_settings, "find_spec", lambda name: None)
    values = {"train": "train", "validation": "validation"}
    plan = {"stage": "grpo", "name": "test", "code": "c", "values": values, "compute": {"engine": "vllm"}}
    (tmp_path / "spec").write_text(json.dumps(plan))
    for split in ("train", "validation"):
        write_table(tmp_path / split, table(arithmetic.examples(split, 4, 0), EXAMPLES))
    names = ("spec", "model", "train", "validation", "state", "metrics", "generations", "checkpoint", "status")
    files = training.Files(**{name: tmp_path / name for name in names})
    with pytest.raises(ConfigError, match=r"compute\.engine is vllm, which is not installed"):
        with training.opened("grpo", files):
            pass


@pytest.mark.parametrize(
    ("gpus", "changes", "message"),
    [
        (0, {}, None),
        (0, {"placement": "same_gpu"}, "same_gpu .* needs 1 CUDA devices; 0 are visible"),
        (1, {"placement": "same_gpu"}, None),
        (1, {"placement": "separate_gpu"}, "separate_gpu .* needs 2 CUDA devices; 1 are visible"),
        (2, {"placement": "separate_gpu"}, None),
        (4, {"placement": "separate_gpu", "tensor_parallel_size": 2, "train_processes": 3}, "needs 5 CUDA devices"),
        (8, {"tensor_parallel_size": 2}, "in_process is for one GPU; with tensor_parallel_size 2"),
        (8, {"placement": "same_gpu", "train_processes": 2}, "same_gpu is for one GPU; .* train_processes 2"),
    ],
)
def test_placements_that_cannot_be_are_refused(machine, gpus, changes, message):
    machine(gpus)
    if message is None:
        check_engine(vllm(**changes), training=True)
    else:
        with pytest.raises(ConfigError, match=message):
            check_engine(vllm(**changes), training=True)
    check_engine(vllm(**changes), training=False)  # without a trainer there is nothing to be placed beside


def test_samplers_take_the_gpus_after_the_trainers():
    compute = vllm(placement="separate_gpu", tensor_parallel_size=2, train_processes=3)
    assert PLACEMENTS["separate_gpu"].arguments(compute)["device_ids"] == [3, 4]


def test_nothing_of_the_model_folder_is_run_or_applied_unasked():
    for on_gpu in (True, False):
        arguments = engine_arguments(vllm(), Path("policy"), 128, on_gpu=on_gpu)
        assert arguments["trust_remote_code"] is False
        assert arguments["load_format"] == "safetensors"
        assert arguments["generation_config"] == "vllm"


def test_shares_of_memory_are_a_gpus_alone():
    on_gpu = engine_arguments(vllm(gpu_memory_utilization=0.5), Path("policy"), 128, on_gpu=True)
    assert on_gpu["gpu_memory_utilization"] == 0.5
    assert "kv_cache_memory_bytes" not in on_gpu
    assert engine_arguments(vllm(), Path("policy"), 128, on_gpu=False)["kv_cache_memory_bytes"] > 0


@pytest.mark.parametrize(("temperature", "told"), [(0.0, 0.0), (0.7, 1.0), (1.0, 1.0)])
def test_the_handouts_sampling_is_passed_on(temperature, told):
    arguments = sampling_arguments(Sampling(temperature=temperature), 5, [0, 3])
    assert arguments["temperature"] == told
    assert (arguments["min_tokens"], arguments["max_tokens"]) == (4, 1024)
    assert (arguments["stop"], arguments["include_stop_str_in_output"]) == (["</answer>"], True)
    assert (arguments["seed"], arguments["stop_token_ids"], arguments["logprobs"]) == (5, [0, 3], 0)


def test_ends_are_told_apart_and_a_failure_is_no_end():
    assert finish_reason("length", None) == "length"
    assert finish_reason("stop", "</answer>") == "stop"
    assert finish_reason("stop", None) == finish_reason("stop", 7) == "eos"
    for reason in ("abort", "error", None):
        with pytest.raises(RuntimeError, match="vLLM ended a response with"):
            finish_reason(reason, None)
