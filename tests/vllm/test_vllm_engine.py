"""vLLM against the contract of all engines, on a CPU; and what is its own."""

from __future__ import annotations

import pytest

from tests.engines.contract import *  # noqa: F403
from tests.engines.contract import Subject


@pytest.fixture
def subject(open_vllm):
    return Subject(open_vllm, head_size=32, entropies=False)
