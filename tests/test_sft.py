"""Fine-tuning's own step: what it imitates, and that how it is computed makes no difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from stages import records, sft, training
from stages.files import Files
from tests.gradients import Recorder, assert_same_gradient
from tests.small_runs import files_of, run


def test_fine_tuning_without_responses_is_an_error(warm, tmp_path):
    files = files_of(warm, tmp_path, "sft")
    bare = replace(files, train=warm / "validation.parquet")
    with pytest.raises(records.DataError, match="no responses to fine-tune on"):
        run(bare, "sft")


def gradient_of(files: Files) -> torch.Tensor:
    """That of the first step, in float64, so that what is left is not rounding."""
    with training.opened("sft", files, sft.total_steps) as held:
        held.model.double()
        held.optimizer = Recorder(held.model.parameters(), lr=0.0)
        sft.sft_step(held)
        return held.optimizer.gradient


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("budget", [60, 200, 10_000])
def test_fine_tuning_does_not_depend_on_how_it_is_computed(warm, tmp_path, budget, share):
    """Micro-batches of one response, of a few, of all, the template run once or every time: the same step, because
    the mean is over the batch's tokens."""
    gradients = []
    for name, how in (
        ("plain", {"micro_batch_tokens": 100_000, "share_prompts": False}),
        ("other", {"micro_batch_tokens": budget, "share_prompts": share}),
    ):
        gradients.append(
            gradient_of(files_of(warm, tmp_path / name, "sft", **how, train_batch_size=8, max_grad_norm=1e9))
        )
    assert_same_gradient(gradients[1], gradients[0])


def test_micro_batches_stay_within_the_budget_and_lose_nothing():
    batch = [([1] * p, [2] * r) for p, r in ((3, 4), (10, 1), (2, 2), (7, 9), (1, 1))]
    parts = sft.micro_batches(batch, 20)
    assert sorted(pair for part in parts for pair in part) == sorted(batch)
    for part in parts:
        assert len(part) == 1 or len(part) * max(len(p) + len(r) for p, r in part) <= 20
    assert len(sft.micro_batches(batch, 10_000)) == 1
