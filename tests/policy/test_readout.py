"""From states to logits as each model makes them, found without knowing the model's name."""

from __future__ import annotations

import pytest
import torch
from transformers import CohereConfig, Gemma2Config, GraniteConfig, MiniCPM3Config, MistralConfig
from transformers.models.auto import AutoModelForCausalLM

from stages.policy.limits import positions, window
from stages.policy.readout import readout, states
from stages.policy.scoring import make_sequences, score
from stages.records import DataError
from tests.policy.test_scoring import PROMPTS, RESPONSES, batch, one_by_one
from tests.tiny import MODELS, llama

SIZES = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2}
SIZES |= {"bos_token_id": None, "pad_token_id": None, "eos_token_id": 0}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "num_key_value_heads": 4}
CONFIGS = {
    "granite": (GraniteConfig, {"logits_scaling": 8.0}),
    "cohere": (CohereConfig, {"logit_scale": 0.25}),
    "gemma2": (Gemma2Config, {"final_logit_softcapping": 2.0, "attn_logit_softcapping": 2.0, "sliding_window": 4}),
    "mistral": (MistralConfig, {"sliding_window": 4}),
    "minicpm3": (MiniCPM3Config, LATENT | {"dim_model_base": 8}),
}


def built(name: str):
    kind, own = CONFIGS[name]
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(kind(**SIZES | own), dtype=torch.float32).eval()


@pytest.mark.parametrize(
    ("name", "scale", "softcap"),
    [("granite", 0.125, None), ("cohere", 0.25, None), ("gemma2", 1.0, 2.0), ("mistral", 1.0, None)],
)
def test_scale_and_bound_are_found(name, scale, softcap):
    found = readout(built(name))
    assert (found.scale, found.size) == (pytest.approx(scale, rel=1e-6), 100)
    assert found.softcap == (None if softcap is None else pytest.approx(softcap, rel=1e-6))


@pytest.mark.parametrize("name", MODELS)
def test_plain_heads_are_left_as_they_are(name):
    model = MODELS[name]()
    assert readout(model) == (1.0, None, model.config.vocab_size)
    hidden, _ = states(model, input_ids=torch.tensor([[5, 6, 7]]), use_cache=False)
    assert torch.equal(hidden, model.base_model(torch.tensor([[5, 6, 7]])).last_hidden_state)
    assert "forward" not in model.lm_head.__dict__


# The attention of MiniCPM3 does not take what is shared, which is found when it is opened.
@pytest.mark.parametrize(
    ("name", "shared"), [(n, s) for n in CONFIGS for s in (False, True) if (n, s) != ("minicpm3", True)]
)
def test_values_and_gradients_are_the_models_own(name, shared):
    """Whatever it does to its logits, and to its attention: sequences are longer than the windows."""
    model = built(name).double()
    weights = torch.linspace(-1, 1, len(RESPONSES)).double()
    expected = one_by_one(model, 0.7)[0]
    sum(w * values.sum() for w, values in zip(weights, expected, strict=True)).backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters()}
    model.zero_grad()
    log_probs, _ = score(model, batch(), temperature=0.7, shared=shared)
    for row, values in zip(log_probs, expected, strict=True):
        torch.testing.assert_close(row[: len(values)].double(), values, atol=2e-5, rtol=0)
    (weights[:, None] * log_probs).sum().backward()
    for key, p in model.named_parameters():
        torch.testing.assert_close(p.grad, gradients[key], atol=2e-5, rtol=1e-4, msg=key)


def test_what_is_neither_a_scale_nor_a_bound_is_refused(monkeypatch):
    model = llama()
    own = model.forward

    def cubed(**inputs):
        output = own(**inputs)
        output.logits = output.logits**3
        return output

    monkeypatch.setattr(model, "forward", cubed)
    with pytest.raises(DataError, match="LlamaForCausalLM: what it does to its logits"):
        score(model, make_sequences(PROMPTS, RESPONSES, "cpu"), temperature=1.0, shared=False)


def test_the_head_is_put_back_after_an_error():
    model = llama()
    with pytest.raises(IndexError):
        states(model, input_ids=torch.tensor([[10**6]]))
    assert "forward" not in model.lm_head.__dict__


def test_windows_are_read_whatever_the_layers_are_called():
    assert window(built("mistral")) == window(built("gemma2")) == 4
    assert window(MODELS["qwen"]()) == float("inf")


def test_rotary_frequencies_that_change_bound_the_positions():
    model = llama()
    assert positions(model) == 512
    model.config.rope_parameters = {"rope_type": "longrope", "original_max_position_embeddings": 64}
    assert positions(model) == 64
    model.config.rope_parameters = {"rope_type": "llama3", "original_max_position_embeddings": 64}
    assert positions(model) == 512
