"""Fine-tuning's own step: what it imitates, and that how it is computed makes no difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from stages import records, sft
from tests.small_runs import files_of, run


def test_fine_tuning_without_responses_is_an_error(warm, tmp_path):
    files = files_of(warm, tmp_path, "sft")
    bare = replace(files, train=warm / "validation.parquet")
    with pytest.raises(records.DataError, match="no responses to fine-tune on"):
        run(bare, "sft")


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [60, 200, 10_000])
def test_fine_tuning_does_not_depend_on_how_it_is_computed(warm, tmp_path, budget, share):
    """Micro-batches of one response, of a few, of all, the template run once or every time: the same step, because
    the mean is over the batch's tokens."""
    weights = []
    for name, how in (
        ("plain", {"micro_batch_tokens": 100_000, "share_prompts": False}),
        ("other", {"micro_batch_tokens": budget, "share_prompts": share}),
    ):
        one = {"n_sft_steps": 1, "learning_rate": 1e-3, "train_batch_size": 8}
        files = files_of(warm, tmp_path / name, "sft", **how, **one)
        seen = []
        run(files, "sft", lambda held, seen=seen: seen.append(sft.sft_step(held)) or seen[0])
        weights.append(load_file(files.checkpoint / "model.safetensors"))
    for key, value in weights[0].items():
        torch.testing.assert_close(weights[1][key], value, atol=2e-5, rtol=1e-4, msg=key)


def test_micro_batches_stay_within_the_budget_and_lose_nothing():
    batch = [([1] * p, [2] * r) for p, r in ((3, 4), (10, 1), (2, 2), (7, 9), (1, 1))]
    parts = sft.micro_batches(batch, 20)
    assert sorted(pair for part in parts for pair in part) == sorted(batch)
    for part in parts:
        assert len(part) == 1 or len(part) * max(len(p) + len(r) for p, r in part) <= 20
    assert len(sft.micro_batches(batch, 10_000)) == 1
