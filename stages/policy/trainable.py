"""A policy made ready to train: as `compute` says, on the processes there are."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from stages.hardware import Compute
from stages.policy import memory, processes
from stages.policy.checking import check_scoring
from stages.policy.loading import DTYPES, Policy, best_device, choose_attention, load_policy
from stages.policy.sharding import decoder_layers, shard
from stages.policy.shared_attention import attention


def load_trainable(folder: Path | str, compute: Compute) -> Policy:
    """Model and tokenizer, weights in float32; the model computes in `compute.dtype` (see policy/sharding.py).

    Raises DataError naming the folder, ConfigError naming the key of `compute`.
    """
    dtype, device = DTYPES[compute.dtype], best_device()
    split = processes.splits(compute)
    if device.type == "cpu":
        memory.keep_freed()
    chosen = choose_attention(compute.attention, dtype, device)
    model, tokenizer = load_policy(folder, device=torch.device("cpu") if split else device)
    check_scoring(model)  # in float32, before weights are split, on every process alike
    if compute.gradient_checkpointing:
        recompute_layers(model)
    if compute.compile:
        compile_layers(model)
    if split:
        shard(model, dtype, device)
        model.config.dtype = dtype  # what it computes in, which is what attention asks for
    model.set_attn_implementation(chosen)
    return model, tokenizer


def recompute_layers(model: nn.Module) -> None:
    """Keep a layer's input alone for the backward pass, which runs the layer again (gradient checkpointing).

    Transformers' own switch takes the cache away from the layers and with it what the responses of a prompt share; so
    this is done here, and both scoring paths work with it.
    """
    for layer in decoder_layers(model):
        layer.forward = partial(_recomputed, model, layer.forward)


def _recomputed(model: nn.Module, forward: Any, *arguments: Any, **options: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*arguments, **options)
    now = model.config.get_text_config()._attn_implementation
    return checkpoint(
        partial(forward, **options),
        *arguments,
        use_reentrant=False,
        preserve_rng_state=False,  # dropout is off
        context_fn=lambda: (nullcontext(), attention(model, now)),
    )


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Compile what stands around the attention: norms and feed-forward, whose many small products then run as few
    kernels. The attention has its fused kernels, and its caches stay plain Python. All layers share the code."""
    for layer in decoder_layers(model):
        for name, part in layer.named_children():
            if "att" not in name:
                part.compile(dynamic=True, backend=backend)
