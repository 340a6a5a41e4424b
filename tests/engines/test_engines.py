"""Engines that run in the main environment, against the contract; and what is the Transformers engine's alone."""

from __future__ import annotations

import pytest

from stages.engines.protocol import Sampling, sample_seed
from stages.engines.transformers import TransformersEngine
from tests.engines.contract import *  # noqa: F403
from tests.engines.contract import Subject, flat, requests
from tests.tiny import MODELS, tokenizer

ENGINES = {"transformers": TransformersEngine}


@pytest.fixture(params=ENGINES)
def subject(request):
    engine = ENGINES[request.param]
    return Subject(lambda model, **options: engine(model, tokenizer(), **options), head_size=8, entropies=True)


def test_no_two_samples_share_a_seed():
    seeds = {sample_seed(r, s, f"e{e}", i) for r in range(4) for s in range(4) for e in range(16) for i in range(16)}
    assert len(seeds) == 4 * 4 * 16 * 16
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_rows_that_finish_leave_the_batch_without_a_trace(monkeypatch):
    """Dropping finished rows changes nothing: same tokens as with dropping switched off."""
    model = MODELS["qwen"]()
    sampling = Sampling(temperature=1.0, min_tokens=0, max_tokens=40, stop=(">", "e", "a"))
    dropped = flat(TransformersEngine(model, tokenizer()).generate(requests(8), sampling))
    monkeypatch.setattr("stages.engines.transformers.SHRINK_AT", -1.0)
    kept = flat(TransformersEngine(model, tokenizer()).generate(requests(8), sampling))
    assert len({len(c.token_ids) for c in kept}) > 3
    assert [c.token_ids for c in dropped] == [c.token_ids for c in kept]
