"""vLLM against the contract of all engines, on a CPU; and what is its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from vllm import EngineArgs

from stages.engines.vllm import Client, SameGpu, SeparateGpu, WholeWeights
from stages.engines.vllm_settings import PLACEMENTS, engine_arguments
from stages.hardware import Compute
from stages.policy.scoring import make_sequences, score
from tests.engines.contract import *  # noqa: F403
from tests.engines.contract import FREE, GREEDY, PROMPTS, Subject, flat, ids, plain_greedy, requests
from tests.tiny import llama, qwen


@pytest.fixture
def subject(open_vllm):
    return Subject(open_vllm, head_size=32, entropies=False)


@pytest.mark.parametrize("build", [qwen, llama])
def test_an_engine_just_opened_samples_from_what_the_folder_holds(open_vllm, build):
    """A batch size of its own, so that this engine is no earlier test's with weights pushed."""
    model = build(seed=5, head_size=32)
    engine = open_vllm(model, batch_size=3)
    assert ids(flat(engine.generate(requests(1), GREEDY))) == [plain_greedy(model, prompt, 8) for prompt in PROMPTS]


def test_bfloat16_leaves_a_gap_to_the_trainer_and_a_push_is_cast(open_vllm):
    trainer = qwen(seed=3, head_size=32)
    engine = open_vllm(qwen(head_size=32), dtype="bfloat16")
    engine.sync(trainer)
    answers = flat(engine.generate(requests(8), FREE))
    batch = make_sequences(PROMPTS, ids(answers), "cpu")
    log_probs, _ = score(trainer, batch, temperature=1.0, shared=False)
    gaps = [
        (row[: len(c.log_probs)] - torch.tensor(c.log_probs)).abs() for row, c in zip(log_probs, answers, strict=True)
    ]
    assert 1e-4 < torch.cat(gaps).mean() < 0.1


def test_a_model_without_a_weight_that_was_loaded_is_refused(open_vllm):
    engine = open_vllm(qwen(head_size=32))
    with pytest.raises(RuntimeError, match=r"cannot renew: \['model.embed_tokens.weight'"):
        engine.sync(nn.ModuleDict({"wrapped": qwen(head_size=32)}))


# ---------------------------------------------------------------- placements on GPUs, as far as a CPU can tell


@pytest.mark.parametrize(
    ("placement", "backend"), [("in_process", None), ("same_gpu", "ipc"), ("separate_gpu", "nccl")]
)
def test_vllm_knows_every_argument(placement, backend):
    compute = Compute(engine="vllm", placement=placement)
    told = engine_arguments(compute, Path("policy"), 16, on_gpu=True) | PLACEMENTS[placement].arguments(compute)
    arguments = EngineArgs(**told)
    assert getattr(arguments.weight_transfer_config, "backend", None) == backend
    assert arguments.enable_sleep_mode == (placement == "same_gpu")


class Recorder:
    """In place of vllm.LLM: the calls made, in order."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args, **kwargs: self.calls.append((name, *args, *kwargs.values()))


def test_the_transfer_speaks_to_vllm_in_its_own_requests():
    llm = Recorder()
    client = Client(llm)
    client.init_weight_transfer_engine({"packed": True})
    client.start_weight_update()
    client.update_weights({"names": ["a"]})
    client.finish_weight_update()
    assert llm.calls == [
        ("init_weight_transfer_engine", {"init_info": {"packed": True}}),
        ("start_weight_update",),
        ("update_weights", {"update_info": {"names": ["a"]}}),
        ("finish_weight_update",),
    ]


@pytest.mark.parametrize("build", [qwen, llama])
def test_the_transfers_metadata_and_stream_agree(build):
    """Element for element, tied weights under each of their names, in the sampler's type."""
    source = WholeWeights(torch.bfloat16)
    source.model = build()
    told = [(each.name, each.dtype, each.shape) for each in source.metadata()]
    sent = [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in source]
    assert told == sent
    assert told == [(name, torch.bfloat16, tuple(w.shape)) for name, w in source.model.state_dict().items()]
    assert "lm_head.weight" in {name for name, *_ in told}


def test_trainer_and_samplers_meet_as_many_as_they_are():
    compute = Compute(engine="vllm", placement="separate_gpu", tensor_parallel_size=4)
    info = SeparateGpu(Recorder(), compute).meeting()
    assert (info.backend, info.rank, info.world_size, info.master_address) == ("nccl", 0, 5, "127.0.0.1")
    assert 0 < info.master_port < 65536
    info = SameGpu(Recorder(), Compute(engine="vllm", placement="same_gpu")).meeting()
    assert (info.backend, info.rank, info.packed) == ("ipc", 0, True)


def test_a_tensor_larger_than_vllms_buffer_gets_one_of_its_size():
    """The embedding of a 7B policy in bfloat16 is more than the gibibyte at which vLLM's packed transfer stops."""
    link = SameGpu(Recorder(), Compute(engine="vllm", placement="same_gpu", dtype="bfloat16"))
    assert link.meeting().packed_buffer_size_bytes == 2**30
    link.source.model = nn.Embedding(152_064, 3584, device="meta")
    assert link.meeting().packed_buffer_size_bytes == 152_064 * 3584 * 2 > 2**30


def test_weights_are_sent_when_the_optimiser_has_written_them(monkeypatch):
    """vLLM packs them on CUDA streams of its own, which do not wait for the trainer's."""
    calls = []
    link = SeparateGpu(Recorder(), Compute(engine="vllm", placement="separate_gpu"))
    link.transfer = SimpleNamespace(send_weights=lambda: calls.append("sent"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: calls.append("waited"))
    link.push(qwen())
    assert calls == ["waited", "sent"]


def test_on_the_trainers_gpu_vllm_sleeps_but_to_sample_and_to_take_weights(monkeypatch):
    """Before it wakes, PyTorch gives back what the trainer has freed."""
    llm = Recorder()
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: llm.calls.append(("given back",)))
    link = SameGpu(llm, Compute(engine="vllm", placement="same_gpu"))
    monkeypatch.setattr(SeparateGpu, "push", lambda self, model: llm.calls.append(("sent",)))
    with link:
        llm.calls.append(("sampled",))
    link.push(qwen())
    with link:
        llm.calls.append(("sampled",))
    assert llm.calls == [
        ("sleep", 1),
        ("given back",),
        ("wake_up", ["weights", "kv_cache"]),
        ("sampled",),
        ("sleep", 1),
        ("given back",),
        ("wake_up", ["weights"]),
        ("sent",),
        ("given back",),
        ("wake_up", ["kv_cache"]),
        ("sampled",),
        ("sleep", 1),
    ]
