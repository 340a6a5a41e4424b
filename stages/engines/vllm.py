"""Sampling with vLLM (pinned: 0.32.0), in this process or in one of its own on the same or another GPU.

One request per response, each with its own seed: vLLM derives the seeds of a request for n responses by counting up
from one, so they could neither be hashes of (run, step, example, sample) nor be kept from meeting another request's.
The prompt is still computed once per group, by vLLM's prefix cache. (Of a seed's 63 bits, generators on a CPU use 32.)
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedTokenizerBase

from stages.engines.protocol import Completion, Request, Sampling, check_room, response_text
from stages.engines.transformers import end_token_ids
from stages.engines.vllm_settings import (
    DEFAULTS,
    PLACEMENTS,
    check,
    engine_arguments,
    finish_reason,
    sampling_arguments,
)
from stages.hardware import Compute
from stages.policy.loading import DTYPES
from stages.policy.sharding import full_weights


class TemperedWorker:
    """What vLLM's workers learn from this project, through vLLM's `worker_extension_cls`.

    vLLM reports log-probs either before temperature or after `min_tokens` has forbidden the end token; the trainer's
    are after the one and before the other. Dividing the logits inside the model makes the former just those.
    """

    def divide_logits(self, temperature: float) -> None:
        scaling = self.get_model().logits_processor
        self.own_scale = getattr(self, "own_scale", scaling.scale)
        scaling.scale = self.own_scale / temperature


class VllmEngine:
    """Samples with vLLM, at most `batch_size` responses at a time, from the policy in `folder`.

    `training` says whether there is a trainer to share with and to take weights from. Raises ConfigError where vLLM
    cannot run as `compute` says.
    """

    def __init__(
        self,
        compute: Compute,
        folder: Path,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: int = 128,
        *,
        training: bool = True,
    ) -> None:
        check(compute, training=training)
        name = compute.placement if training else "in_process"
        for variable, value in DEFAULTS.items():
            os.environ.setdefault(variable, value)
        os.environ.update(PLACEMENTS[name].environment)
        from vllm import LLM, SamplingParams

        arguments = engine_arguments(compute, folder, batch_size, on_gpu=torch.cuda.is_available())
        self.llm = LLM(**arguments, **PLACEMENTS[name].arguments(compute))
        self.link = LINKS[name](self.llm, compute)
        self.sampling_params = SamplingParams
        self.tokenizer = tokenizer
        self.end_ids = end_token_ids(_generation_config(folder), tokenizer, self.llm.model_config.get_vocab_size())
        self.names = _weight_names(folder)
        self.temperature = 1.0

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See Engine.generate. Entropies are None: vLLM hands out no whole distributions."""
        check_room(requests, sampling, self.llm.model_config.max_model_len)
        prompts, parameters = [], []
        for request in requests:
            for seed in request.seeds:
                prompts.append({"prompt_token_ids": list(request.prompt_token_ids)})
                parameters.append(self.sampling_params(**sampling_arguments(sampling, seed, self.end_ids)))
        if not prompts:
            return [[] for _ in requests]
        with self.link:
            self._set_temperature(sampling.temperature or 1.0)
            outputs = iter(self.llm.generate(prompts, parameters, use_tqdm=False))
        return [[self._completion(next(outputs), sampling) for _ in request.seeds] for request in requests]

    def sync(self, model: nn.Module) -> None:
        """See Engine.sync. Raises RuntimeError rather than sample from weights that are not the trainer's."""
        if missing := sorted(self.names - model.state_dict().keys()):
            raise RuntimeError(f"vLLM loaded weights that the trainer's model has not and cannot renew: {missing[:3]}")
        self.link.push(model)
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache, which was computed with the old weights")

    def _set_temperature(self, temperature: float) -> None:
        if temperature != self.temperature:
            self.llm.collective_rpc("divide_logits", args=(temperature,))
            self.temperature = temperature

    def _completion(self, output: Any, sampling: Sampling) -> Completion:
        (answer,) = output.outputs
        ids = list(answer.token_ids)
        log_probs = [at[token].logprob for token, at in zip(ids, answer.logprobs, strict=True)]
        reason = finish_reason(answer.finish_reason, answer.stop_reason)
        text = response_text(self.tokenizer.decode, ids, reason, sampling.stop)
        return Completion(ids, log_probs, text, reason)


def _generation_config(folder: Path) -> GenerationConfig | None:
    return GenerationConfig.from_pretrained(folder) if (folder / "generation_config.json").exists() else None


def _weight_names(folder: Path) -> set[str]:
    names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            names.update(file.keys())
    return names


# ---------------------------------------------------------------- how weights get there


class InProcess:
    """vLLM in this process: weights are copied, one tensor at a time. Within `with`, vLLM may use its memory."""

    def __init__(self, llm: Any, compute: Compute) -> None:
        self.llm = llm
        self.compute = compute
        self.dtype = DTYPES[compute.dtype]

    def __enter__(self) -> None:
        """Nothing to wake."""

    def __exit__(self, *_: object) -> None:
        """Nothing to put to sleep."""

    def push(self, model: nn.Module) -> None:
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": full_weights(model, self.dtype)})


class SeparateGpu(InProcess):
    """vLLM in another process, on GPUs of its own: weights go by NCCL, through vLLM's weight transfer."""

    def __init__(self, llm: Any, compute: Compute) -> None:
        super().__init__(llm, compute)
        self.source = WholeWeights(self.dtype)
        self.transfer: Any = None

    def push(self, model: nn.Module) -> None:
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

        self.source.model = model
        if self.transfer is None:
            self.transfer = WeightTransferTrainerFactory.trainer_init(
                self.meeting(), client=Client(self.llm), source=self.source
            )
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # NCCL's side reads on streams of its own, which do not wait for the optimiser
        self.transfer.send_weights()

    def meeting(self) -> Any:
        """What the trainer's end of the transfer starts from."""
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo
        from vllm.utils.network_utils import get_open_port

        ends = 1 + self.compute.tensor_parallel_size
        return NCCLTrainerInitInfo("127.0.0.1", get_open_port(), ends, rank=0)


class SameGpu(SeparateGpu):
    """vLLM in another process on the trainer's GPU: weights go by CUDA IPC, through vLLM's weight transfer.

    While the trainer works vLLM sleeps: its weights are in main memory, its cache is gone.
    """

    def __init__(self, llm: Any, compute: Compute) -> None:
        super().__init__(llm, compute)
        self.__exit__()

    def __enter__(self) -> None:
        self.wake("weights", "kv_cache")

    def __exit__(self, *_: object) -> None:
        self.llm.sleep(level=1)
        self.asleep = {"weights", "kv_cache"}

    def wake(self, *parts: str) -> None:
        if waking := [part for part in parts if part in self.asleep]:
            torch.cuda.empty_cache()  # what the trainer has freed, PyTorch still holds, and vLLM could not have it
            self.llm.wake_up(tags=waking)
            self.asleep -= set(waking)

    def push(self, model: nn.Module) -> None:
        self.wake("weights")  # the cache stays away: room for both sets of weights
        super().push(model)

    def meeting(self) -> Any:
        from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

        info = IPCTrainerInitInfo(rank=0, packed=True)
        largest = max((math.prod(each.shape) * each.dtype.itemsize for each in self.source.metadata()), default=0)
        info.packed_buffer_size_bytes = max(info.packed_buffer_size_bytes, largest)  # no tensor is cut in two
        return info


class WholeWeights:
    """A trainer's weights as vLLM's transfer asks for them (its WeightSource)."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.model: nn.Module = nn.Module()

    def metadata(self) -> list[Any]:
        from vllm.distributed.weight_transfer.base import ParamMeta

        return [ParamMeta(name, self.dtype, tuple(each.shape)) for name, each in self.model.state_dict().items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return full_weights(self.model, self.dtype)


class Client:
    """vllm.LLM as vLLM's transfer speaks to it (its VLLMWeightSyncClient)."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.start_weight_update = llm.start_weight_update
        self.finish_weight_update = llm.finish_weight_update

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.llm.init_weight_transfer_engine({"init_info": init_info})

    def update_weights(self, update_info: Any) -> None:
        self.llm.update_weights({"update_info": update_info})


LINKS: dict[str, type[InProcess]] = {"in_process": InProcess, "same_gpu": SameGpu, "separate_gpu": SeparateGpu}
