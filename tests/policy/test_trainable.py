"""Hardware settings change speed and memory, not what is computed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stages.hardware import Compute
from stages.policy import loading
from stages.policy.loading import choose_attention, save_policy
from stages.policy.scoring import make_sequences, score
from stages.policy.trainable import compile_layers, decoder_layers, load_trainable, recompute_layers
from stages.strict import ConfigError
from tests.tiny import MODELS, qwen, tokenizer

TEMPLATE = [5, 9, 30, 31]
PROMPTS = [[*TEMPLATE, 7], [*TEMPLATE, 8, 9], [*TEMPLATE, 10]]
RESPONSES = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 12], [13, 14], [15, 16, 17, 18], [19, 20, 21, 22, 23]]


def values_and_gradient(model, shared: bool) -> tuple[torch.Tensor, torch.Tensor]:
    batch = make_sequences(PROMPTS, RESPONSES, "cpu")
    log_probs, _ = score(model, batch, temperature=1.0, shared=shared)
    (log_probs * torch.linspace(-1, 1, len(RESPONSES))[:, None]).sum().backward()
    return log_probs.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


CHANGES = {"recomputed": recompute_layers, "compiled": lambda model: compile_layers(model, "aot_eager")}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("change", CHANGES)
def test_values_and_gradients_stay(change, name, shared):
    model = MODELS[name]()
    expected = values_and_gradient(model, shared)
    changed = MODELS[name]()
    CHANGES[change](changed)
    for found, value in zip(values_and_gradient(changed, shared), expected, strict=True):
        torch.testing.assert_close(found, value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_recomputed_layers_keep_their_inputs_alone(shared):
    """What the decoder keeps for the backward pass, in numbers, with and without recomputing."""
    kept = []
    for recomputes in (False, True):
        model = qwen()
        if recomputes:
            recompute_layers(model)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, sizes=sizes: sizes.append(x.numel()) or x, lambda x: x):
            score(model, make_sequences(PROMPTS, RESPONSES, "cpu"), temperature=1.0, shared=shared)
        kept.append(sum(sizes))
    assert kept[1] < 0.5 * kept[0]


@pytest.mark.parametrize("name", MODELS)
def test_every_decoder_layer_is_found(name):
    model = MODELS[name]()
    assert decoder_layers(model) == list(model.model.layers)


def test_a_trainable_policy_has_float32_weights(tmp_path):
    save_policy(qwen(), tokenizer(), tmp_path, torch.bfloat16)
    stored, _ = loading.load_policy(tmp_path, dtype="auto")
    assert stored.dtype == torch.bfloat16
    model, _ = load_trainable(tmp_path, Compute(gradient_checkpointing=True, attention="eager"))
    assert model.config._attn_implementation == "eager"
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    torch.testing.assert_close(dict(model.named_parameters()), dict(qwen().named_parameters()), atol=2e-3, rtol=4e-3)


CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("wanted", "dtype", "device", "installed", "chosen"),
    [
        ("auto", torch.float32, CPU, True, "sdpa"),
        ("auto", torch.bfloat16, CPU, True, "sdpa"),
        ("auto", torch.float32, GPU, True, "sdpa"),
        ("auto", torch.bfloat16, GPU, True, "flash_attention_2"),
        ("auto", torch.bfloat16, GPU, False, "sdpa"),
        ("eager", torch.bfloat16, GPU, True, "eager"),
        ("flash_attention_2", torch.bfloat16, GPU, True, "flash_attention_2"),
    ],
)
def test_which_attention_is_taken(monkeypatch, capsys, wanted, dtype, device, installed, chosen):
    monkeypatch.setattr(loading, "find_spec", lambda name: Path() if installed else None)
    assert choose_attention(wanted, dtype, device) == chosen
    said = capsys.readouterr().err.count("flash_attention_2 is not installed")
    assert said == (wanted == "auto" and device == GPU and dtype == torch.bfloat16 and not installed)


@pytest.mark.parametrize(
    ("device", "installed", "reason"), [(CPU, True, "bfloat16 on cpu"), (GPU, False, "is not installed")]
)
def test_flash_attention_that_cannot_run_is_an_error_naming_the_key(monkeypatch, device, installed, reason):
    monkeypatch.setattr(loading, "find_spec", lambda name: Path() if installed else None)
    with pytest.raises(ConfigError, match=rf"compute\.attention: flash_attention_2 .*{reason}"):
        choose_attention("flash_attention_2", torch.bfloat16, device)
