"""From logits to per-token log-probabilities and entropies, in nats.

A distribution is softmax(logits / temperature); the same temperature goes into the log-probability and the
entropy. Everything is computed in float32 whatever the dtype of the logits. Nothing is masked here: prompt
and padding positions come back with the numbers the model gives them, and the loss masks.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def compute_entropy(logits: Tensor) -> Tensor:
    """Entropy of the next-token distribution over the last (vocabulary) dimension: logZ - sum_v p_v logit_v.

    `logits` [..., V] of any float dtype gives [...] in float32. The largest logit is subtracted first, so
    that logits of 1e4 lose no digits to the difference. A logit of -inf (a forbidden token) adds nothing.
    """
    logits = logits.float()
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    log_z = torch.logsumexp(shifted, dim=-1, keepdim=True)
    expected_logit = ((shifted - log_z).exp() * shifted.nan_to_num(neginf=0.0)).sum(dim=-1)
    return log_z.squeeze(-1) - expected_logit


def log_probs_from_logits(logits: Tensor, labels: Tensor, temperature: float = 1.0) -> Tensor:
    """log p(label) at each position: the label's logit minus logsumexp.

    `logits` [..., V] of any float dtype and int64 `labels` [...] give [...] in float32. For the backward pass
    the logits are kept as they came, and no [..., V] log-softmax or float32 copy; that pass makes the
    gradient in one float32 buffer. Second derivatives do not exist.
    """
    return _LogProbs.apply(logits, labels, temperature)


def get_response_log_probs(
    model: nn.Module, input_ids: Tensor, labels: Tensor, return_token_entropy: bool = False
) -> dict[str, Tensor]:
    """Score `labels` under a causal language model: log p(x_t | x_<t) at every position, unmasked.

    `model(input_ids).logits` is [B, T, V]; `input_ids` and `labels` are int64 [B, T], already shifted by
    one. Returns `log_probs` [B, T], differentiable, and on request `token_entropy` [B, T], a diagnostic
    without gradient.
    """
    logits = model(input_ids).logits
    scores = {"log_probs": log_probs_from_logits(logits, labels)}
    if return_token_entropy:
        with torch.no_grad():
            scores["token_entropy"] = compute_entropy(logits)
    return scores


def chunked_log_probs(
    hidden: Tensor,
    lm_head_weight: Tensor,
    labels: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    temperature: float = 1.0,
    chunk: int = 512,
    with_entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities straight from hidden states, without ever holding the dense [N, V] logits.

    `hidden` [N, H] are the states at the positions to score (gather the response positions first: the rest
    need no head at all), `lm_head_weight` [V, H], `bias` [V] or None, `labels` int64 [N]. Logits are
    scale * (hidden @ weight.T + bias), with a `softcap` c bent to c * tanh(logits / c). The head is
    applied to `chunk` positions at a time, in the forward pass and once more in the backward pass, so the
    peak is one chunk of logits: chunk * V * 4 bytes and a small multiple of it. Returns log_probs [N] in
    float32 and, if asked for, the entropy [N], which carries no gradient. Gradients reach `hidden`,
    `lm_head_weight` and `bias`; second derivatives do not exist.
    """
    if hidden.dim() != 2 or labels.shape != hidden.shape[:1]:
        raise ValueError(
            f"chunked_log_probs takes hidden [N, H] and labels [N], got {tuple(hidden.shape)} and {tuple(labels.shape)}"
        )
    if chunk < 1 or temperature <= 0:
        raise ValueError(f"chunk and temperature must be positive, got chunk={chunk}, temperature={temperature}")
    after = (scale, softcap, temperature)
    return _ChunkedLogProbs.apply(hidden, lm_head_weight, bias, labels, after, chunk, with_entropy)


class _LogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, temperature):
        tempered = logits.float() / temperature if temperature != 1.0 else logits.float()
        log_probs, log_z = _label_log_probs(tempered, labels)
        ctx.save_for_backward(logits, labels, log_z)
        ctx.temperature = temperature
        return log_probs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_log_probs):
        logits, labels, log_z = ctx.saved_tensors
        buffer = logits.to(torch.float32, copy=True).div_(ctx.temperature)
        grad_logits = _logits_gradient_(buffer, labels, log_z, grad_log_probs / ctx.temperature)
        return grad_logits.to(logits.dtype), None, None


class _ChunkedLogProbs(torch.autograd.Function):
    """The same from hidden states, chunk by chunk, with the logits recomputed in the backward pass."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, labels, after, chunk, with_entropy):
        device = hidden.device.type
        autocast = torch.is_autocast_enabled(device)
        ctx.matmul_dtype = torch.get_autocast_dtype(device) if autocast else hidden.dtype
        ctx.after, ctx.chunk = after, chunk
        weight_cast = weight.to(ctx.matmul_dtype)
        log_z = hidden.new_empty(hidden.shape[0], dtype=torch.float32)
        log_probs = torch.empty_like(log_z)
        entropy = torch.empty_like(log_z) if with_entropy else None
        for rows in _row_slices(hidden.shape[0], chunk):
            logits = _head(hidden[rows].to(ctx.matmul_dtype), weight_cast, bias, *after)
            log_probs[rows], log_z[rows] = _label_log_probs(logits, labels[rows])
            if with_entropy:
                entropy[rows] = compute_entropy(logits)
        ctx.save_for_backward(hidden, weight, bias, labels, log_z)
        if with_entropy:
            ctx.mark_non_differentiable(entropy)
        return log_probs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_log_probs, _grad_entropy):
        hidden, weight, bias, labels, log_z = ctx.saved_tensors
        weight_cast = weight.to(ctx.matmul_dtype)
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        scale, softcap, temperature = ctx.after
        grad_hidden = torch.empty_like(hidden) if wants_hidden else None
        # float32: a sum over many chunks in bf16 would lose the small ones
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if wants_weight else None
        grad_bias = torch.zeros_like(bias, dtype=torch.float32) if wants_bias else None
        for rows in _row_slices(hidden.shape[0], ctx.chunk):
            states = hidden[rows].to(ctx.matmul_dtype)
            logits = _head(states, weight_cast, bias, *ctx.after)
            slope = None if softcap is None else 1.0 - (logits * (temperature / softcap)).square_()
            grad_logits = _logits_gradient_(logits, labels[rows], log_z[rows], grad_log_probs[rows] / temperature)
            if slope is not None:
                grad_logits *= slope
            if scale != 1.0:
                grad_logits *= scale
            if wants_bias:
                grad_bias += grad_logits.sum(dim=0)
            grad_logits = grad_logits.to(ctx.matmul_dtype)
            if wants_hidden:
                grad_hidden[rows] = (grad_logits @ weight_cast).to(hidden.dtype)
            if wants_weight and states.dtype == torch.float32:
                grad_weight.addmm_(grad_logits.T, states)  # without a second [V, H]
            elif wants_weight:
                grad_weight += grad_logits.T @ states
        if wants_weight:
            grad_weight = grad_weight.to(weight.dtype)
        if wants_bias:
            grad_bias = grad_bias.to(bias.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None, None, None


def _row_slices(num_rows: int, chunk: int) -> list[slice]:
    return [slice(start, min(start + chunk, num_rows)) for start in range(0, num_rows, chunk)]


def _head(
    states: Tensor, weight: Tensor, bias: Tensor | None, scale: float, softcap: float | None, temperature: float
) -> Tensor:
    """One chunk of tempered float32 logits [n, V]; the caller owns the memory and may overwrite it."""
    with torch.autocast(states.device.type, enabled=False):
        if states.is_cuda and states.dtype in (torch.bfloat16, torch.float16):  # not rounded to 8 or 11 bits on the way
            logits = torch.mm(states, weight.T, out_dtype=torch.float32)
        else:
            logits = (states @ weight.T).float()
    if bias is not None:
        logits += bias
    if scale != 1.0:
        logits *= scale
    if softcap is not None:
        logits.div_(softcap).tanh_().mul_(softcap)
    return logits.div_(temperature) if temperature != 1.0 else logits


def _label_log_probs(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """log p(label) and logZ, [...] each, of float32 logits [..., V]."""
    log_z = torch.logsumexp(logits, dim=-1)
    return logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - log_z, log_z


def _logits_gradient_(logits: Tensor, labels: Tensor, log_z: Tensor, scale: Tensor) -> Tensor:
    """scale * d log p(label) / d logits = scale * (onehot(label) - softmax(logits)), in place."""
    scale = scale.unsqueeze(-1)
    logits.sub_(log_z.unsqueeze(-1)).exp_().mul_(-scale)
    return logits.scatter_add_(-1, labels.unsqueeze(-1), scale)
