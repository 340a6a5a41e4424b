"""Opening vLLM on a model of a test."""

from __future__ import annotations

import pytest

from stages.engines.opening import open_engine
from stages.hardware import Compute
from stages.policy.loading import save_policy
from tests.tiny import tokenizer

pytest.register_assert_rewrite("tests.engines.contract")


@pytest.fixture(scope="session")
def open_vllm(tmp_path_factory):
    """`open_vllm(model, batch_size=64, **compute)`: vLLM in this process, with the weights of `model`.

    Engines are kept and given new weights: opening one takes seconds, and one that is thrown away takes down what it
    shares with all others of its process.
    """
    engines = {}

    def opened(model, batch_size: int = 64, **compute):
        key = (type(model), batch_size, *compute.items())
        if key in engines:
            engines[key].sync(model)
        else:
            folder = tmp_path_factory.mktemp("policy")
            save_policy(model, tokenizer(), folder)
            engines[key] = open_engine(Compute(engine="vllm", **compute), folder, model, tokenizer(), batch_size)
        return engines[key]

    return opened
