"""Which engine samples: one entry per `compute.engine`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stages.engines.protocol import Engine
from stages.engines.vllm_settings import check
from stages.hardware import Compute


def _transformers(compute: Compute, folder: Path, model: Any, tokenizer: Any, batch_size: int) -> Engine:
    from stages.engines.transformers import TransformersEngine
    from stages.policy.loading import DTYPES, best_device, choose_attention, load_policy
    from stages.policy.processes import splits

    if model is None or splits(compute):
        dtype = DTYPES[compute.dtype]
        model, _ = load_policy(folder, dtype, attention=choose_attention(compute.attention, dtype, best_device()))
    return TransformersEngine(model, tokenizer, batch_size)


def _vllm(compute: Compute, folder: Path, model: Any, tokenizer: Any, batch_size: int) -> Engine:
    from stages.engines.vllm import VllmEngine
    from stages.policy.loading import refuse_damaged

    refuse_damaged(folder)
    return VllmEngine(compute, folder, tokenizer, batch_size, training=model is not None)


ENGINES: dict[str, Callable[..., Engine]] = {"transformers": _transformers, "vllm": _vllm}


def check_engine(compute: Compute, *, training: bool) -> None:
    """Raise ConfigError where the engine that `compute` names cannot run here; before anything is loaded."""
    if compute.engine == "vllm":
        check(compute, training=training)


def open_engine(compute: Compute, folder: Path, model: Any, tokenizer: Any, batch_size: int) -> Engine:
    """The engine that samples from the policy in `folder`.

    `model` is the trainer's own, which an engine in the same process may sample from without a copy if its weights are
    whole; None where nothing is trained. Of several processes that train, the first one samples. Raises ConfigError
    where the engine cannot run here.
    """
    from stages.policy.loading import DTYPES
    from stages.policy.processes import leads
    from stages.policy.sharding import Follower

    if not leads():
        return Follower(DTYPES[compute.dtype])
    return ENGINES[compute.engine](compute, folder, model, tokenizer, batch_size)
