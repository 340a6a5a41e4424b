"""What every engine must do: one suite, run against each engine there is.

A test file imports all of this and defines the fixture `subject`, a Subject.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from stages.engines.protocol import Completion, Engine, Request, Sampling, sample_seed
from stages.policy.scoring import make_sequences, score
from stages.strict import ConfigError
from tests.tiny import MODELS, chain, tokenizer

PROMPTS = [[5, 9, 30, 31, 7], [11, 12], [40, 41, 42, 43, 44, 45, 46, 47]]
FREE = Sampling(temperature=1.0, min_tokens=0, max_tokens=12, stop=())
GREEDY = Sampling(temperature=0.0, min_tokens=0, max_tokens=8, stop=())


class Subject(NamedTuple):
    """An engine under test: how to open it on a model, the head size it can work with, whether it tells entropies."""

    open: Callable[..., Engine]
    head_size: int
    entropies: bool


def requests(group: int = 3, step: int = 0) -> list[Request]:
    return [
        Request(prompt, [sample_seed(0, step, f"example-{i}", j) for j in range(group)])
        for i, prompt in enumerate(PROMPTS)
    ]


def flat(answers: list[list[Completion]]) -> list[Completion]:
    return [completion for group in answers for completion in group]


def ids(completions: list[Completion]) -> list[list[int]]:
    return [completion.token_ids for completion in completions]


def plain_greedy(model, prompt: list[int], count: int) -> list[int]:
    """The argmax of a plain Transformers forward pass, token by token, up to the end token."""
    found: list[int] = []
    while len(found) < count and tokenizer().eos_token_id not in found:
        found.append(model(torch.tensor([prompt + found])).logits[0, -1].argmax().item())
    return found


def spoken(subject: Subject, script: list[int], sampling: Sampling) -> Completion:
    """The one response of a model that says `script`."""
    engine = subject.open(chain(script, subject.head_size))
    return engine.generate([Request([5, 6], [1])], sampling)[0][0]


# ---------------------------------------------------------------- groups


def test_groups_come_back_in_order_and_within_limits(subject):
    answers = subject.open(MODELS["qwen"](head_size=subject.head_size)).generate(requests(), FREE)
    assert [len(group) for group in answers] == [3, 3, 3]
    for completion in flat(answers):
        assert 1 <= len(completion.token_ids) <= 12
        assert len(completion.log_probs) == len(completion.token_ids)
        assert completion.finish_reason in ("eos", "length")


def test_answers_belong_to_their_prompts_whatever_the_group_sizes(subject):
    engine = subject.open(MODELS["llama"](head_size=subject.head_size))
    uneven = [Request(prompt, range(count)) for prompt, count in zip(PROMPTS, (1, 4, 2), strict=True)]
    answers = engine.generate(uneven, GREEDY)
    assert [len(group) for group in answers] == [1, 4, 2]
    for prompt, group in zip(PROMPTS, answers, strict=True):
        alone = engine.generate([Request(prompt, [0])], GREEDY)[0][0]
        assert all(completion.token_ids == alone.token_ids for completion in group)


def test_nothing_asked_is_nothing_answered(subject):
    engine = subject.open(MODELS["qwen"](head_size=subject.head_size))
    assert engine.generate([], FREE) == []
    assert engine.generate([Request(PROMPTS[0], [])], FREE) == [[]]


def test_no_room_for_a_response_is_a_clear_error(subject):
    engine = subject.open(MODELS["qwen"](head_size=subject.head_size))
    assert len(engine.generate([Request([7] * 500, [1])], FREE)[0][0].token_ids) <= 12
    with pytest.raises(
        ConfigError, match=r"the prompt of q-7 has 501 tokens; with sampling_max_tokens 12 .* 512 positions"
    ):
        engine.generate([Request([7] * 501, [1], "the prompt of q-7")], FREE)
    with pytest.raises(ConfigError, match="a prompt has no token"):
        engine.generate([Request([], [1])], FREE)


# ---------------------------------------------------------------- distribution


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_those_of_the_trainer(subject, name, temperature):
    """Also under temperature, and where `min_tokens` forbade the end token: the trainer forbids nothing."""
    model = MODELS[name](head_size=subject.head_size)
    sampling = Sampling(temperature=temperature, min_tokens=4, max_tokens=12, stop=())
    answers = flat(subject.open(model).generate(requests(), sampling))
    batch = make_sequences(PROMPTS, ids(answers), "cpu")
    log_probs, entropy = score(model, batch, temperature=temperature, shared=False, with_entropy=True)
    for row, nats, completion in zip(log_probs, entropy, answers, strict=True):
        count = len(completion.token_ids)
        torch.testing.assert_close(row[:count], torch.tensor(completion.log_probs), atol=2e-3, rtol=0)
        if subject.entropies:
            assert nats[:count].mean().item() == pytest.approx(completion.mean_entropy, abs=2e-3)
        else:
            assert completion.mean_entropy is None


def test_a_change_of_temperature_reaches_the_next_samples(subject):
    """1, then 0.7, then 1 again: the last are the first, and none are those between."""
    engine = subject.open(MODELS["qwen"](head_size=subject.head_size))
    cold = Sampling(temperature=0.7, min_tokens=0, max_tokens=12, stop=())
    first, other, again = (flat(engine.generate(requests(), sampling)) for sampling in (FREE, cold, FREE))
    assert first == again
    assert [c.log_probs for c in first] != [c.log_probs for c in other]


def test_frequencies_follow_the_distribution(subject):
    model = MODELS["qwen"](head_size=subject.head_size)
    prompt = PROMPTS[0]
    one = Sampling(temperature=1.0, min_tokens=0, max_tokens=1, stop=())
    seeds = [sample_seed(0, 0, "x", i) for i in range(4000)]
    drawn = [c.token_ids[0] for c in subject.open(model, batch_size=2000).generate([Request(prompt, seeds)], one)[0]]
    probs = torch.softmax(model(torch.tensor([prompt])).logits[0, -1], -1)
    counts = torch.bincount(torch.tensor(drawn), minlength=len(probs)).float()
    likely = probs * 4000 >= 5
    chi2 = ((counts - probs * 4000) ** 2 / (probs * 4000))[likely].sum().item()
    degrees = int(likely.sum()) - 1
    assert chi2 < degrees + 5 * (2 * degrees) ** 0.5


# ---------------------------------------------------------------- seeds


def test_a_response_does_not_depend_on_its_batch(subject):
    model = MODELS["llama"](head_size=subject.head_size)
    together = flat(subject.open(model).generate(requests(), FREE))
    one_by_one = subject.open(model, batch_size=1)
    alone = [
        one_by_one.generate([Request(r.prompt_token_ids, [seed])], FREE)[0][0] for r in requests() for seed in r.seeds
    ]
    assert ids(together) == ids(alone)
    assert [c.finish_reason for c in together] == [c.finish_reason for c in alone]


def test_seeds_repeat_and_differ(subject):
    engine = subject.open(MODELS["qwen"](head_size=subject.head_size))
    first, again = flat(engine.generate(requests(), FREE)), flat(engine.generate(requests(), FREE))
    assert ids(first) == ids(again)
    other = flat(engine.generate(requests(step=1), FREE))
    assert ids(first) != ids(other)
    assert len({tuple(c.token_ids) for c in first}) == len(first)


def test_neighbouring_seeds_draw_different_numbers(subject):
    """Seeds are hashes, but nothing forbids two that differ by one, in one group or between two."""
    engine = subject.open(MODELS["qwen"](head_size=subject.head_size))
    prompt = PROMPTS[0]
    group = engine.generate([Request(prompt, [7, 8, 9]), Request(prompt, [8])], FREE)
    assert len({tuple(c.token_ids) for c in group[0]}) == 3
    assert group[1][0].token_ids == group[0][1].token_ids


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("name", MODELS)
def test_greedy_is_plain_transformers_before_and_after_a_push(subject, name):
    """Tied and untied heads: what is sampled before a push is the old policy's, afterwards the trainer's."""
    old, trainer = MODELS[name](seed=2, head_size=subject.head_size), MODELS[name](seed=1, head_size=subject.head_size)
    before, after = ([plain_greedy(model, prompt, 8) for prompt in PROMPTS] for model in (old, trainer))
    assert before != after
    engine = subject.open(old)
    assert ids(flat(engine.generate(requests(1), GREEDY))) == before
    engine.sync(trainer)
    assert ids(flat(engine.generate(requests(1), GREEDY))) == after


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("part", ["embed_tokens", "layers.1.mlp.down_proj", "norm.weight"])
def test_one_changed_weight_is_pushed(subject, name, part):
    """Log-probs after the push are the trainer's for the same tokens, and before it they were not."""
    model, trainer = (MODELS[name](head_size=subject.head_size) for _ in range(2))
    weight = next(each for key, each in trainer.named_parameters() if part in key)
    with torch.no_grad():
        weight.mul_(1.0 + 0.5 * torch.sin(torch.arange(weight.numel())).view_as(weight))
    engine = subject.open(model)
    gaps = []
    for push in (False, True):
        if push:
            engine.sync(trainer)
        answers = flat(engine.generate(requests(1), FREE))
        log_probs, _ = score(trainer, make_sequences(PROMPTS, ids(answers), "cpu"), temperature=1.0, shared=False)
        pairs = zip(log_probs, answers, strict=True)
        gaps.append(max((row[: len(c.log_probs)] - torch.tensor(c.log_probs)).abs().max().item() for row, c in pairs))
    assert gaps[0] > 0.05
    assert gaps[1] < 2e-3


# ---------------------------------------------------------------- ends


def test_stop_string_is_kept_and_ends_the_response(subject):
    script = tokenizer()(" 7 more then </answer> and").input_ids
    completion = spoken(subject, script, Sampling(temperature=1.0, min_tokens=4, max_tokens=60))
    assert completion.finish_reason == "stop"
    assert completion.token_ids == script[:-1]
    assert completion.text == " 7 more then </answer>"


def test_a_token_that_holds_more_than_the_stop_string_is_cut_in_the_text_alone(subject):
    script = tokenizer()(" 7 more then </answer>. and").input_ids
    assert tokenizer().decode(script[-2]) == ">."
    completion = spoken(subject, script, Sampling(temperature=1.0, min_tokens=4, max_tokens=60))
    assert completion.finish_reason == "stop"
    assert completion.token_ids == script[:-1]
    assert completion.text == " 7 more then </answer>"


@pytest.mark.parametrize(("min_tokens", "reason", "count"), [(2, "stop", 3), (3, "length", 9), (4, "length", 9)])
def test_a_stop_string_within_the_first_min_tokens_does_not_end_the_response(subject, min_tokens, reason, count):
    script = tokenizer()(" </answer> and more").input_ids
    assert tokenizer().decode(script[:3]) == " </answer>"
    completion = spoken(subject, script, Sampling(temperature=1.0, min_tokens=min_tokens, max_tokens=9))
    assert (completion.finish_reason, len(completion.token_ids)) == (reason, count)


def test_a_stop_string_that_ends_at_the_limit_is_a_stop(subject):
    script = tokenizer()(" 7 more then </answer> and").input_ids
    completion = spoken(subject, script, Sampling(temperature=1.0, min_tokens=4, max_tokens=len(script) - 1))
    assert completion.finish_reason == "stop"


def test_end_token_is_kept_in_the_ids_once_and_not_in_the_text(subject):
    script = [*tokenizer()(" many more").input_ids, tokenizer().eos_token_id]
    completion = spoken(subject, script, Sampling(temperature=1.0, min_tokens=1, max_tokens=60))
    assert completion.finish_reason == "eos"
    assert completion.token_ids == script
    assert completion.text == " many more"


def test_the_end_token_waits_for_min_tokens(subject):
    end = tokenizer().eos_token_id
    completion = spoken(subject, [end], Sampling(temperature=1.0, min_tokens=4, max_tokens=9))
    assert len(completion.token_ids) == 5
    assert completion.token_ids.index(end) == 4


def test_limit_is_told_apart_from_an_end(subject):
    script = tokenizer()(" many more").input_ids
    completion = spoken(subject, script, Sampling(temperature=1.0, min_tokens=1, max_tokens=6))
    assert completion.finish_reason == "length"
    assert len(completion.token_ids) == 6
