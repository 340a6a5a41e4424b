"""Opening vLLM on a model of a test."""

from __future__ import annotations

import gc
from itertools import count

import pytest

from stages.config import Compute
from stages.engines.opening import open_engine
from stages.policy.loading import save_policy
from tests.tiny import tokenizer

pytest.register_assert_rewrite("tests.engines.contract")


@pytest.fixture
def open_vllm(tmp_path):
    """`open_vllm(model, batch_size=64, **compute)`: vLLM, in this process, on a copy of `model`."""
    number = count()

    def opened(model, batch_size: int = 64, **compute):
        folder = tmp_path / f"policy-{next(number)}"
        save_policy(model, tokenizer(), folder)
        return open_engine(Compute(engine="vllm", **compute), folder, model, tokenizer(), batch_size)

    yield opened
    gc.collect()
