"""Pairs and packed chunks as the model sees them: the same numbers as whole documents give, only cheaper."""

from __future__ import annotations

import math

import pytest
import torch

from stages.algorithm.dpo import dpo_loss, preference_metrics
from stages.algorithm.log_probs import get_response_log_probs
from stages.policy.packing import Epochs, chunk_nll, cut, encode_document
from stages.policy.preference import (
    Pair,
    all_log_probs,
    compute_per_instance_dpo_loss,
    encode_pair,
    micro_batches,
    pair_log_probs,
)
from stages.tasks.arithmetic_alignment import preferences
from tests.tiny import MODELS, tokenizer

ROWS = preferences("train", 5, 0, "t")


def encoded(row: dict) -> Pair:
    return encode_pair(tokenizer(), row["prompt"], row["chosen"], row["rejected"])


def test_a_pair_parts_where_its_documents_do():
    for row in ROWS:
        pair = encoded(row)
        documents = [encode_document(tokenizer(), row["prompt"], row[name]) for name in ("chosen", "rejected")]
        assert [pair.prompt + pair.chosen, pair.prompt + pair.rejected] == documents
        assert pair.chosen[0] != pair.rejected[0]
        assert len(pair) == max(map(len, documents))


@pytest.mark.parametrize(("chosen", "rejected"), [("1", "1 2"), ("1 2", "1"), ("same", "same")])
def test_no_continuation_is_empty(chosen, rejected):
    pair = encode_pair(tokenizer(), "Say it.", chosen, rejected)
    assert pair.chosen[-1] == pair.rejected[-1] == tokenizer().eos_token_id


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [True, False])
def test_the_loss_of_continuations_is_that_of_whole_documents(name, share):
    """Value and gradient, against the assignment's own function, which scores whole documents one by one."""
    models = {}
    losses = []
    pairs = [encoded(row) for row in ROWS]
    for whole in (True, False):
        policy, reference = MODELS[name](seed=1), MODELS[name](seed=0)
        texts = [(row["prompt"], row["chosen"], row["rejected"]) for row in ROWS]
        if whole:
            per_pair = [compute_per_instance_dpo_loss(policy, reference, tokenizer(), 0.3, *one) for one in texts]
            loss = torch.stack(per_pair).mean()
        else:
            fixed = torch.tensor(all_log_probs(reference, pairs, 10_000, share))
            scored = pair_log_probs(policy, pairs, share)
            loss = dpo_loss(*scored.unbind(-1), *fixed.unbind(-1), 0.3).mean()
        loss.backward()
        losses.append(loss.item())
        models[whole] = policy
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    for one, other in zip(models[True].parameters(), models[False].parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=2e-4, rtol=1e-3)


def test_all_pairs_are_scored_in_their_order_whatever_the_budget():
    model, pairs = MODELS["qwen"](), [encoded(row) for row in ROWS]
    whole = all_log_probs(model, pairs, 10**6, True)
    for budget in (1, 300):
        torch.testing.assert_close(torch.tensor(all_log_probs(model, pairs, budget, False)), torch.tensor(whole))


def test_micro_batches_stay_within_the_budget_and_lose_nothing():
    pairs = [Pair([1] * n, [2] * m, [3] * k) for n, m, k in ((5, 1, 9), (2, 2, 2), (30, 4, 1), (3, 3, 1))]
    parts = micro_batches(pairs, 40)
    assert sorted(place for part in parts for place in part) == [0, 1, 2, 3]
    for part in parts:
        assert len(part) == 1 or 2 * len(part) * max(len(pairs[place]) for place in part) <= 40
    assert len(micro_batches(pairs, 10_000)) == 1


def test_metrics_of_pairs_by_hand():
    policy = torch.tensor([[-1.0, -3.0], [-2.0, -1.0], [-1.0, -1.0]])
    reference = torch.tensor([[-2.0, -3.0], [-4.0, -1.0], [-1.0, -1.0]])
    found = preference_metrics(policy, reference, beta=0.5)
    margins = [0.5 * 1.0, 0.5 * 2.0, 0.0]
    assert found["loss"] == pytest.approx(sum(math.log1p(math.exp(-one)) for one in margins) / 3)
    assert found["preference_accuracy"] == pytest.approx(2.5 / 3)
    assert found["ranking_accuracy"] == pytest.approx(1.5 / 3)
    assert found["reward_margin"] == pytest.approx(0.5)
    assert (found["chosen_log_prob"], found["rejected_log_prob"]) == pytest.approx((-4 / 3, -5 / 3))


# ---------------------------------------------------------------- packing


@pytest.mark.parametrize("name", MODELS)
def test_the_nll_of_chunks_is_that_of_every_label(name):
    model = MODELS[name]()
    documents = [encode_document(tokenizer(), row["prompt"], row["chosen"]) for row in ROWS]
    chunks = cut(documents, 40)
    ids = torch.tensor(chunks)
    expected = -get_response_log_probs(model, ids[:, :-1], ids[:, 1:])["log_probs"].sum()
    torch.testing.assert_close(chunk_nll(model, chunks), expected, atol=1e-2, rtol=1e-5)


@pytest.mark.parametrize(("length", "chunks"), [(3, 3), (4, 2), (9, 1), (10, 0)])
def test_chunks_overlap_by_one_token_and_the_rest_is_dropped(length, chunks):
    found = cut([[0, 1, 2, 3], [4, 5], [6, 7, 8, 9]], length)
    assert len(found) == chunks == len(Epochs([[0, 1, 2, 3], [4, 5], [6, 7, 8, 9]], length, seed=0))
    for number, chunk in enumerate(found):
        assert chunk == list(range(number * length, number * length + length + 1))


def test_every_epoch_packs_all_documents_in_an_order_of_its_own():
    documents = [[number] * 3 for number in range(20)]
    epochs = Epochs(documents, 3, seed=0)
    assert len(epochs) == 19
    orders = [[chunk[0] for chunk in epochs.chunks(epoch)] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert [chunk[0] for chunk in Epochs(documents, 3, seed=1).chunks(0)] != orders[0]
    assert len(set(orders[0])) == 19  # whole documents stay together


def test_batches_go_through_the_epochs_and_the_last_one_may_be_smaller():
    epochs = Epochs([[number] * 3 for number in range(6)], 3, seed=0)  # five chunks
    batches = [epochs.batch(4, step, n_epochs=2) for step in range(3)]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert [chunk for batch in batches for chunk in batch] == epochs.chunks(0) + epochs.chunks(1)
