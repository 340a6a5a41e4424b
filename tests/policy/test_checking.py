"""What is found when a policy is opened, and what follows from it."""

from __future__ import annotations

import pytest
import torch

from stages import console
from stages.engines.decoding import Cached, Recomputed, Shared
from stages.engines.protocol import Request, Sampling
from stages.engines.transformers import TransformersEngine
from stages.policy import shared_attention
from stages.policy.checking import check_scoring, own_log_probs
from stages.policy.scoring import fits, score
from stages.policy.shared_attention import attend, supported
from stages.records import DataError
from tests.engines.contract import flat, requests
from tests.policy.test_readout import built
from tests.policy.test_scoring import batch
from tests.tiny import MODELS, llama, tokenizer


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(console, "say", lines.append)
    return lines


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_said_of_a_model_that_is_right_and_nothing_random_is_used_up(name, said):
    model, before = MODELS[name](), torch.get_rng_state()
    check_scoring(model)
    engine = TransformersEngine(model, tokenizer())
    assert (engine.way(20), supported(model), said) == (Shared, True, [])
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.grad is None for p in model.parameters())


def test_a_shared_path_with_other_numbers_is_left_out_with_a_word(said, monkeypatch):
    """The kind of fault, whatever its cause: values of every part but the last are doubled."""
    right = shared_attention.attend_in_parts

    def wrong(query, parts, scaling):
        return right(query, [*(part._replace(values=2 * part.values) for part in parts[:-1]), parts[-1]], scaling)

    monkeypatch.setattr(shared_attention, "attend_in_parts", wrong)
    model = llama()
    check_scoring(model)
    engine = TransformersEngine(model, tokenizer())
    assert engine.way(20) is Cached
    assert not fits(model, batch())
    assert len(said) == 1
    assert said[0].startswith(
        "LlamaForCausalLM: prompts are not shared among responses, which is slower: its log-probs"
    )
    for request, completions in zip(requests(), engine.generate(requests(), Sampling(max_tokens=6)), strict=True):
        for one in completions:
            own = own_log_probs(model, request.prompt_token_ids, one.token_ids)
            torch.testing.assert_close(torch.tensor(one.log_probs), own, atol=1e-4, rtol=0)


@pytest.mark.parametrize("opened", [check_scoring, lambda model: TransformersEngine(model, tokenizer())])
def test_a_model_whose_own_numbers_nothing_here_gives_is_refused_by_name(opened, said, monkeypatch):
    """Its attention sees the future, so that padding and what follows matter."""
    model = llama()
    for layer in model.model.layers:
        monkeypatch.setattr(layer.self_attn, "is_causal", False)
    monkeypatch.setattr("transformers.models.llama.modeling_llama.create_causal_mask", lambda **_: None)
    with pytest.raises(DataError, match=r"LlamaForCausalLM cannot be .* than rounding explains"):
        opened(model)


def test_what_shared_attention_does_not_do_it_does_not_swallow():
    seen = shared_attention.Seen([shared_attention.Part(*(torch.ones(1, 1, 5, 4) for _ in range(2)), None)])
    query, module = torch.ones(1, 1, 1, 4), torch.nn.Identity()
    attend(module, query, seen, seen, None, position_ids=torch.zeros(1), sliding_window=5, softcap=None)
    for asked in ({"sliding_window": 4}, {"softcap": 2.0}, {"s_aux": torch.ones(1)}, {"dropout": 0.1}):
        with pytest.raises(NotImplementedError, match=f"Identity asks shared attention for .*{next(iter(asked))[-6:]}"):
            attend(module, query, seen, seen, None, **asked)


@pytest.mark.parametrize("way", [Cached, Recomputed])
@pytest.mark.parametrize("name", MODELS)
def test_every_way_of_decoding_gives_the_same_responses(name, way, monkeypatch):
    """Rows that finish early leave the batch in all of them."""
    model = MODELS[name]()
    sampling = Sampling(temperature=1.0, min_tokens=0, max_tokens=20, stop=(">", "e", "a"))
    engine = TransformersEngine(model, tokenizer())
    expected = flat(engine.generate(requests(4), sampling))
    monkeypatch.setattr(engine, "way", lambda longest: way)
    found = flat(engine.generate(requests(4), sampling))
    assert len({len(one.token_ids) for one in found}) > 2
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)


def test_a_model_with_a_window_shares_prompts_within_it_alone(said):
    model = built("mistral")
    engine = TransformersEngine(model, tokenizer())
    assert (engine.way(4), engine.way(5)) == (Shared, Cached)
    assert said == []
    (answers,) = engine.generate([Request([5, 9, 30, 31, 7], [1, 2])], Sampling(max_tokens=9, stop=()))
    for one in answers:
        own = own_log_probs(model, [5, 9, 30, 31, 7], one.token_ids)
        torch.testing.assert_close(torch.tensor(one.log_probs), own, atol=1e-4, rtol=0)


def test_scoring_asked_to_share_where_it_cannot_takes_the_plain_path():
    model = built("mistral")
    plain, asked = (score(model, batch(), temperature=1.0, shared=shared)[0] for shared in (False, True))
    assert torch.equal(plain, asked)
