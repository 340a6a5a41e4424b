"""What every engine must do: one suite, run against each engine there is."""

from __future__ import annotations

import pytest
import torch

from stages.engines.protocol import Request, Sampling, sample_seed
from stages.engines.transformers import TransformersEngine
from stages.policy.scoring import make_sequences, score
from tests.tiny import MODELS, tokenizer

ENGINES = {"transformers": TransformersEngine}
PROMPTS = [[5, 9, 30, 31, 7], [11, 12], [40, 41, 42, 43, 44, 45, 46, 47]]
FREE = Sampling(temperature=1.0, min_tokens=0, max_tokens=12, stop=())


@pytest.fixture(params=ENGINES)
def make(request):
    return lambda model, **options: ENGINES[request.param](model, tokenizer(), **options)


def requests(group: int = 3, step: int = 0) -> list[Request]:
    return [
        Request(prompt, [sample_seed(0, step, f"example-{i}", j) for j in range(group)])
        for i, prompt in enumerate(PROMPTS)
    ]


def flat(answers):
    return [completion for group in answers for completion in group]


def test_groups_come_back_in_order_and_within_limits(make):
    answers = make(MODELS["qwen"]()).generate(requests(), FREE)
    assert [len(group) for group in answers] == [3, 3, 3]
    for completion in flat(answers):
        assert 1 <= len(completion.token_ids) <= 12
        assert len(completion.log_probs) == len(completion.token_ids)
        assert completion.finish_reason in ("eos", "length")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_those_of_the_trainer(make, name, temperature):
    model = MODELS[name]()
    sampling = Sampling(temperature=temperature, min_tokens=4, max_tokens=12, stop=())
    answers = make(model).generate(requests(), sampling)
    batch = make_sequences(PROMPTS, [c.token_ids for c in flat(answers)], "cpu")
    log_probs, entropy = score(model, batch, temperature=temperature, shared=False, with_entropy=True)
    for row, nats, completion in zip(log_probs, entropy, flat(answers), strict=True):
        count = len(completion.token_ids)
        torch.testing.assert_close(row[:count], torch.tensor(completion.log_probs), atol=2e-3, rtol=0)
        assert nats[:count].mean().item() == pytest.approx(completion.mean_entropy, abs=2e-3)


def test_a_response_does_not_depend_on_its_batch(make):
    model = MODELS["llama"]()
    together = flat(make(model).generate(requests(), FREE))
    alone = [
        make(model, batch_size=1).generate([Request(r.prompt_token_ids, [seed])], FREE)[0][0]
        for r in requests()
        for seed in r.seeds
    ]
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]
    assert [c.finish_reason for c in together] == [c.finish_reason for c in alone]


def test_seeds_repeat_and_differ(make):
    engine = make(MODELS["qwen"]())
    first, again = flat(engine.generate(requests(), FREE)), flat(engine.generate(requests(), FREE))
    assert first == again
    other = flat(engine.generate(requests(step=1), FREE))
    assert [c.token_ids for c in first] != [c.token_ids for c in other]
    assert len({tuple(c.token_ids) for c in first}) == len(first)


def test_no_two_samples_share_a_seed():
    seeds = {sample_seed(r, s, f"e{e}", i) for r in range(4) for s in range(4) for e in range(16) for i in range(16)}
    assert len(seeds) == 4 * 4 * 16 * 16
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_frequencies_follow_the_distribution(make):
    model = MODELS["qwen"]()
    prompt = PROMPTS[0]
    one = Sampling(temperature=1.0, min_tokens=0, max_tokens=1, stop=())
    seeds = [sample_seed(0, 0, "x", i) for i in range(4000)]
    drawn = [c.token_ids[0] for c in make(model, batch_size=4000).generate([Request(prompt, seeds)], one)[0]]
    probs = torch.softmax(model(torch.tensor([prompt])).logits[0, -1], -1)
    counts = torch.bincount(torch.tensor(drawn), minlength=len(probs)).float()
    likely = probs * 4000 >= 5
    chi2 = ((counts - probs * 4000) ** 2 / (probs * 4000))[likely].sum().item()
    degrees = int(likely.sum()) - 1
    assert chi2 < degrees + 5 * (2 * degrees) ** 0.5


def test_greedy_is_the_argmax_of_a_plain_forward_pass(make):
    model = MODELS["llama"]()
    answers = make(model).generate(requests(1), Sampling(temperature=0.0, min_tokens=0, max_tokens=8, stop=()))
    for prompt, (completion,) in zip(PROMPTS, answers, strict=True):
        ids = list(prompt)
        for token in completion.token_ids:
            assert model(torch.tensor([ids])).logits[0, -1].argmax().item() == token
            ids.append(token)


def test_sync_changes_what_is_sampled_and_to_the_right_weights(make):
    trainer, engine = MODELS["qwen"](seed=1), make(MODELS["qwen"](seed=2))
    greedy = Sampling(temperature=0.0, min_tokens=0, max_tokens=8, stop=())
    stale = flat(engine.generate(requests(1), greedy))
    fresh = flat(make(trainer).generate(requests(1), greedy))
    assert stale != fresh
    engine.sync(trainer)
    assert flat(engine.generate(requests(1), greedy)) == fresh


def following(script: list[int]):
    """A model whose next-token distribution is one-hot on `script[position - prompt length]`, via its head."""
    model = MODELS["qwen"]()
    head = model.get_output_embeddings()
    position = {"at": 0}

    def forward(hidden):
        logits = torch.full((*hidden.shape[:-1], head.weight.shape[0]), -30.0)
        logits[..., script[min(position["at"], len(script) - 1)]] = 30.0
        position["at"] += 1
        return logits

    head.forward = forward
    return model


def test_stop_string_is_kept_and_ends_the_response():
    text = " 3 </think> <answer> 3 </answer> and more"
    ids = tokenizer()(text).input_ids
    sampling = Sampling(temperature=1.0, min_tokens=4, max_tokens=60)
    completion = TransformersEngine(following(ids), tokenizer()).generate([Request([5, 6], [1])], sampling)[0][0]
    assert completion.finish_reason == "stop"
    assert completion.text == " 3 </think> <answer> 3 </answer>"


def test_end_token_is_kept_in_the_ids_once_and_not_in_the_text():
    ids = [*tokenizer()("good bye now").input_ids, tokenizer().eos_token_id]
    sampling = Sampling(temperature=1.0, min_tokens=1, max_tokens=60)
    completion = TransformersEngine(following(ids), tokenizer()).generate([Request([5, 6], [1])], sampling)[0][0]
    assert completion.finish_reason == "eos"
    assert completion.token_ids == ids
    assert completion.text == "good bye now"


def test_nothing_ends_before_min_tokens():
    end = tokenizer().eos_token_id
    sampling = Sampling(temperature=1.0, min_tokens=4, max_tokens=9)
    completion = TransformersEngine(following([end]), tokenizer()).generate([Request([5, 6], [1])], sampling)[0][0]
    assert len(completion.token_ids) == 5
    assert completion.token_ids.index(end) == 4


def test_limit_is_told_apart_from_an_end():
    ids = tokenizer()(" 1 + 1 = 2.").input_ids[:2]
    sampling = Sampling(temperature=1.0, min_tokens=1, max_tokens=6)
    completion = TransformersEngine(following(ids), tokenizer()).generate([Request([5, 6], [1])], sampling)[0][0]
    assert completion.finish_reason == "length"
    assert len(completion.token_ids) == 6


def test_rows_that_finish_leave_the_batch_without_a_trace(monkeypatch):
    """Dropping finished rows changes nothing: same tokens as with dropping switched off."""
    model = MODELS["qwen"]()
    sampling = Sampling(temperature=1.0, min_tokens=0, max_tokens=40, stop=(">", "e", "a"))
    dropped = flat(TransformersEngine(model, tokenizer()).generate(requests(8), sampling))
    monkeypatch.setattr("stages.engines.transformers.SHRINK_AT", -1.0)
    kept = flat(TransformersEngine(model, tokenizer()).generate(requests(8), sampling))
    assert len({len(c.token_ids) for c in kept}) > 3
    assert [c.token_ids for c in dropped] == [c.token_ids for c in kept]
