"""Which engine samples: one entry per `compute.engine`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stages.config import Compute
from stages.engines.protocol import Engine


def _transformers(compute: Compute, folder: Path, model: Any, tokenizer: Any, batch_size: int) -> Engine:
    from stages.engines.transformers import TransformersEngine
    from stages.policy.loading import load_policy

    if model is None:
        model, _ = load_policy(folder)
    return TransformersEngine(model, tokenizer, batch_size)


ENGINES: dict[str, Callable[..., Engine]] = {"transformers": _transformers}


def open_engine(compute: Compute, folder: Path, model: Any, tokenizer: Any, batch_size: int) -> Engine:
    """The engine that samples from the policy in `folder`.

    `model` is the trainer's own, which an engine in the same process may sample from without a copy; None where
    nothing is trained.
    """
    return ENGINES[compute.engine](compute, folder, model, tokenizer, batch_size)
