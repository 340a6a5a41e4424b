import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from stages.algorithm.log_probs import (
    chunked_log_probs,
    compute_entropy,
    get_response_log_probs,
    log_probs_from_logits,
)


def test_entropy_by_hand():
    # p = (1/2, 1/4, 1/4): H = 1/2 log 2 + 2 * 1/4 log 4 = 1.5 log 2
    logits = torch.tensor([0.5, 0.25, 0.25]).log() + 3.0
    torch.testing.assert_close(compute_entropy(logits).item(), 1.5 * math.log(2), rtol=1e-6, atol=0)


@pytest.mark.parametrize("vocab", [2, 500, 151_665])
def test_entropy_of_the_uniform_distribution_is_log_v(vocab):
    for level in (0.0, 1e4, -1e4):
        entropy = compute_entropy(torch.full((1, 2, vocab), level))
        torch.testing.assert_close(entropy, torch.full((1, 2), math.log(vocab)), rtol=1e-5, atol=0)


def test_entropy_is_finite_for_huge_bf16_logits_and_forbidden_tokens():
    huge = torch.tensor([3e38, -3e38, 0.0, 1.0], dtype=torch.bfloat16)
    assert compute_entropy(huge).item() == 0.0
    forbidden = torch.tensor([0.0, 0.0, -math.inf])
    torch.testing.assert_close(compute_entropy(forbidden).item(), math.log(2))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_those_of_the_dense_log_softmax_in_value_and_gradient(temperature):
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 5, 11, requires_grad=True), torch.randint(11, (3, 5))
    before, upstream = logits.detach().clone(), torch.randn(3, 5)
    lean = log_probs_from_logits(logits, labels, temperature)
    dense = torch.log_softmax(logits / temperature, dim=-1).gather(-1, labels[..., None])[..., 0]
    torch.testing.assert_close(lean, dense)
    gradients = [torch.autograd.grad(log_probs, logits, upstream)[0] for log_probs in (lean, dense)]
    torch.testing.assert_close(*gradients)
    assert torch.equal(logits, before)  # the backward pass works in place, but not on what it was given


def test_log_probs_of_bf16_logits_are_float32_and_keep_no_float32_copy():
    logits, labels = torch.randn(4, 300, dtype=torch.bfloat16, requires_grad=True), torch.randint(300, (4,))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda t: t):
        log_probs = log_probs_from_logits(logits, labels)
    assert log_probs.dtype == torch.float32
    assert [tensor.dtype for tensor in saved if tensor.numel() == logits.numel()] == [torch.bfloat16]
    dense = torch.log_softmax(logits.float(), dim=-1).gather(-1, labels[:, None])[:, 0]
    torch.testing.assert_close(log_probs, dense)
    log_probs.sum().backward()
    assert logits.grad.dtype == torch.bfloat16


class Bigram(nn.Module):
    """A causal language model whose logits for the next token are a row of a table."""

    def __init__(self, vocab: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab, vocab))

    def forward(self, input_ids):
        return SimpleNamespace(logits=self.table[input_ids])


def test_response_log_probs_score_the_label_at_every_position_and_mask_none():
    model = Bigram(7)
    ids = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 0]])
    scores = get_response_log_probs(model, ids[:, :-1], ids[:, 1:], return_token_entropy=True)
    table = torch.log_softmax(model.table, dim=-1)
    expected = torch.stack([table[[1, 2, 3], [2, 3, 0]], table[[4, 5, 6], [5, 6, 0]]])
    torch.testing.assert_close(scores["log_probs"], expected)
    assert scores["log_probs"].requires_grad
    assert not scores["token_entropy"].requires_grad
    assert set(get_response_log_probs(model, ids[:, :-1], ids[:, 1:])) == {"log_probs"}


def dense_log_probs(hidden, weight, labels, bias, temperature):
    logits = hidden @ weight.T if bias is None else hidden @ weight.T + bias
    log_softmax = torch.log_softmax(logits / temperature, dim=-1)
    entropy = -(log_softmax.exp() * log_softmax).sum(dim=-1)
    return log_softmax.gather(-1, labels[:, None])[:, 0], entropy


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 4, 10, 64])
def test_chunked_log_probs_equal_the_dense_ones_in_value_and_gradient(chunk, with_bias, temperature):
    torch.manual_seed(0)
    hidden = torch.randn(10, 8, requires_grad=True)
    weight = torch.randn(37, 8, requires_grad=True)
    bias = torch.randn(37, requires_grad=True) if with_bias else None
    labels, upstream = torch.randint(37, (10,)), torch.randn(10)
    leaves = [leaf for leaf in (hidden, weight, bias) if leaf is not None]

    chunked, entropy = chunked_log_probs(
        hidden, weight, labels, bias=bias, temperature=temperature, chunk=chunk, with_entropy=True
    )
    dense, dense_entropy = dense_log_probs(hidden, weight, labels, bias, temperature)
    torch.testing.assert_close(chunked, dense, rtol=0, atol=1e-5)
    torch.testing.assert_close(entropy, dense_entropy, rtol=0, atol=1e-5)
    assert not entropy.requires_grad

    got = torch.autograd.grad(chunked, leaves, upstream)
    expected = torch.autograd.grad(dense, leaves, upstream)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize(("scale", "softcap"), [(0.125, None), (1.0, 2.0), (3.0, 2.0)])
def test_scaled_and_bent_logits_have_the_dense_values_and_gradients(scale, softcap, temperature):
    torch.manual_seed(0)
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((10, 8), (37, 8), (37,))]
    labels, upstream = torch.randint(37, (10,)), torch.randn(10)
    logits = scale * (leaves[0] @ leaves[1].T + leaves[2])
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    log_softmax = torch.log_softmax(logits / temperature, -1)
    dense, entropies = log_softmax.gather(-1, labels[:, None])[:, 0], -(log_softmax.exp() * log_softmax).sum(-1)
    after = {"scale": scale, "softcap": softcap, "temperature": temperature}
    chunked, entropy = chunked_log_probs(*leaves[:2], labels, bias=leaves[2], chunk=4, with_entropy=True, **after)
    torch.testing.assert_close((chunked, entropy), (dense, entropies), rtol=0, atol=1e-5)
    got, expected = (torch.autograd.grad(log_probs, leaves, upstream) for log_probs in (chunked, dense))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_chunked_log_probs_without_entropy_or_positions():
    hidden, weight = torch.randn(0, 4, requires_grad=True), torch.randn(9, 4, requires_grad=True)
    log_probs, entropy = chunked_log_probs(hidden, weight, torch.empty(0, dtype=torch.int64))
    assert log_probs.shape == (0,)
    assert entropy is None
    log_probs.sum().backward()
    assert weight.grad.abs().sum() == 0


def test_chunked_log_probs_with_a_frozen_head_give_the_gradient_of_hidden_alone():
    hidden, weight = torch.randn(6, 4, requires_grad=True), torch.randn(9, 4)
    labels = torch.randint(9, (6,))
    chunked_log_probs(hidden, weight, labels, chunk=4)[0].sum().backward()
    expected = torch.autograd.grad(dense_log_probs(hidden, weight, labels, None, 1.0)[0].sum(), hidden)[0]
    torch.testing.assert_close(hidden.grad, expected)


def test_chunked_log_probs_under_autocast_keep_float32_results_and_parameter_dtypes():
    torch.manual_seed(0)
    hidden, weight = torch.randn(6, 16, requires_grad=True), torch.randn(9, 16, requires_grad=True)
    labels = torch.randint(9, (6,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        log_probs, _ = chunked_log_probs(hidden, weight, labels, chunk=4)
    log_probs.sum().backward()
    assert (log_probs.dtype, hidden.grad.dtype, weight.grad.dtype) == (torch.float32,) * 3
    dense, _ = dense_log_probs(hidden, weight, labels, None, 1.0)
    torch.testing.assert_close(log_probs, dense, rtol=0, atol=0.1)


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation returns."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return out


def test_chunked_log_probs_never_make_the_dense_logits():
    positions, width, vocab, chunk = 64, 4, 300, 8
    hidden, weight = torch.randn(positions, width, requires_grad=True), torch.randn(vocab, width)
    labels = torch.randint(vocab, (positions,))
    with LargestTensor() as dense:
        log_probs_from_logits(hidden @ weight.T, labels).sum().backward()
    with LargestTensor() as chunked:
        chunked_log_probs(hidden, weight, labels, chunk=chunk, with_entropy=True)[0].sum().backward()
    assert dense.numel == positions * vocab
    assert chunked.numel == chunk * vocab


def test_chunked_log_probs_name_what_is_wrong_with_their_arguments():
    hidden, weight = torch.randn(6, 4), torch.randn(9, 4)
    with pytest.raises(ValueError, match=r"hidden \[N, H\]"):
        chunked_log_probs(hidden[None], weight, torch.zeros(6, dtype=torch.int64))
    with pytest.raises(ValueError, match="temperature=0"):
        chunked_log_probs(hidden, weight, torch.zeros(6, dtype=torch.int64), temperature=0.0)
