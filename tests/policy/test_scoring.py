"""The two scoring paths against the textbook one: dense logits of each whole sequence, unpadded, one by one."""

from __future__ import annotations

import pytest
import torch

from stages.policy.scoring import Sequences, make_sequences, score, template_pays
from tests.tiny import MODELS

PROMPTS = [[5, 9, 30, 31, 7], [11, 12], [40, 41, 42, 43, 44, 45, 46, 47]]
RESPONSES = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 12], [13, 14], [15, 16, 17, 18], [19, 20, 21, 22, 23]]


def batch() -> Sequences:
    return make_sequences(PROMPTS, RESPONSES, "cpu")


def one_by_one(model, temperature: float) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    log_probs, entropies = [], []
    for i, response in enumerate(RESPONSES):
        prompt = PROMPTS[i // 2]
        logits = model(torch.tensor([prompt + response])).logits[0] / temperature
        rows = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=-1)
        log_probs.append(rows[torch.arange(len(response)), torch.tensor(response)])
        entropies.append(-(rows.exp() * rows).sum(-1))
    return log_probs, entropies


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equals_scoring_one_by_one(name, shared, temperature):
    model = MODELS[name]()
    expected, expected_entropy = one_by_one(model, temperature)
    log_probs, entropy = score(model, batch(), temperature=temperature, shared=shared, with_entropy=True)
    for i, response in enumerate(RESPONSES):
        torch.testing.assert_close(log_probs[i, : len(response)], expected[i], atol=2e-5, rtol=0)
        torch.testing.assert_close(entropy[i, : len(response)], expected_entropy[i], atol=2e-5, rtol=0)
        assert not log_probs[i, len(response) :].any()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_those_of_one_by_one(name, shared):
    model = MODELS[name]().double()
    weights = torch.linspace(-1, 1, len(RESPONSES)).double()
    sum(w * values.sum() for w, values in zip(weights, one_by_one(model, 1.0)[0], strict=True)).backward()
    expected = {key: p.grad.clone() for key, p in model.named_parameters()}
    model.zero_grad()
    log_probs, _ = score(model, batch(), temperature=1.0, shared=shared)
    (weights[:, None] * log_probs).sum().backward()
    for key, p in model.named_parameters():
        torch.testing.assert_close(p.grad, expected[key], atol=2e-5, rtol=1e-4, msg=key)


@pytest.mark.parametrize("shared", [False, True])
def test_padding_is_never_looked_at(shared):
    model = MODELS["qwen"]()
    clean = batch()
    noise = torch.randint(1, 300, clean.response_ids.shape, generator=torch.Generator().manual_seed(0))
    prompt_noise = torch.randint(1, 300, clean.prompt_ids.shape, generator=torch.Generator().manual_seed(1))
    inside = torch.arange(clean.prompt_ids.shape[1])[None] < clean.prompt_lengths[:, None]
    dirty = Sequences(
        torch.where(inside, clean.prompt_ids, prompt_noise),
        clean.prompt_lengths,
        torch.where(clean.response_mask, clean.response_ids, noise),
        clean.response_mask,
    )
    before = score(model, clean, temperature=1.0, shared=shared)[0]
    after = score(model, dirty, temperature=1.0, shared=shared)[0]
    torch.testing.assert_close(before, after, atol=1e-6, rtol=0)


def test_responses_of_one_token():
    model = MODELS["llama"]()
    single = make_sequences([[5, 9, 30]], [[3], [4]], "cpu")
    plain = score(model, single, temperature=1.0, shared=False)[0]
    torch.testing.assert_close(score(model, single, temperature=1.0, shared=True)[0], plain, atol=1e-5, rtol=0)
    expected = torch.log_softmax(model(torch.tensor([[5, 9, 30]])).logits[0, -1], -1)[[3, 4]]
    torch.testing.assert_close(plain[:, 0], expected, atol=1e-5, rtol=0)


def test_attention_is_put_back_after_an_error():
    from stages.policy.shared_attention import shared_prompt_attention

    model = MODELS["qwen"]()
    before = model.config._attn_implementation
    with pytest.raises(RuntimeError), shared_prompt_attention(model):
        raise RuntimeError
    assert model.config._attn_implementation == before


def test_a_template_that_all_prompts_share_runs_once_and_changes_nothing():
    from stages.policy.shared_prompt import run_prompts

    model = MODELS["llama"]()
    template = [5, 9, 30, 31]
    prompts = [[*template, 7], [*template, 8, 9], [*template, 10]]
    sequences = make_sequences(prompts, RESPONSES, "cpu")
    assert sequences.template == 4
    plain = score(model, sequences, temperature=1.0, shared=False)[0]
    torch.testing.assert_close(score(model, sequences, temperature=1.0, shared=True)[0], plain, atol=2e-5, rtol=0)
    last, layers = run_prompts(model, sequences.prompt_ids, sequences.prompt_lengths, sequences.template)
    for i, prompt in enumerate(prompts):
        alone = model.base_model(torch.tensor([prompt])).last_hidden_state[0, -1]
        torch.testing.assert_close(last[i], alone, atol=2e-5, rtol=0)
    assert [part.keys.shape[:3] for part in layers[0]] == [(2, 1, 4), (2, 3, 2)]  # heads, prompts, tokens


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        ([[1, 2, 3], [1, 2, 3]], 2),  # the last token is each prompt's own
        ([[1, 2], [1, 2, 3]], 1),
        ([[1, 2, 3]], 0),
        ([[4, 2, 3], [1, 2, 3]], 0),
        ([[1], [1]], 0),
    ],
)
def test_what_prompts_have_in_common(prompts, shared):
    assert make_sequences(prompts, [[1]] * len(prompts), "cpu").template == shared


def test_the_template_of_single_responses_is_shared_where_it_is_the_longer_part():
    template = [5, 9, 30, 31, 7, 6]
    prompts = [[*template, 8], [*template, 9, 10]]
    assert template_pays(MODELS["qwen"](), make_sequences(prompts, [[3], [4, 5, 6]], "cpu"))  # 6 against 2 + 3
    assert not template_pays(MODELS["qwen"](), make_sequences(prompts, [[3], [4, 5, 6, 7]], "cpu"))
    assert not template_pays(MODELS["qwen"](), make_sequences(prompts[:1], [[3]], "cpu"))
