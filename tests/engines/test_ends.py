"""Where a response ends: stop strings of any script, several of them, and end tokens that there are."""

from __future__ import annotations

import pytest
from transformers import GenerationConfig

from stages.engines.protocol import Request, Sampling, response_text
from stages.engines.transformers import TransformersEngine, end_token_ids
from tests.tiny import llama, tokenizer

BYTES = {0: b"A ", 1: "é".encode()[:1], 2: "é".encode()[1:], 3: b"<s>", 4: b" then ", 5: b"# Q:", 6: "答".encode()[:2]}
BYTES |= {7: "答".encode()[2:] + b"!", 8: b"s>"}


class Tokens:
    """A tokenizer whose tokens are bytes: a character may be spread over several."""

    eos_token_id = 99

    def decode(self, ids):
        return b"".join(BYTES[i] for i in ids).decode(errors="replace")


@pytest.fixture(scope="module")
def engine():
    found = TransformersEngine(llama(), tokenizer())
    found.tokenizer = Tokens()
    return found


@pytest.mark.parametrize(
    ("ids", "stops", "ends"),
    [
        ([0, 1, 2], ("é",), True),
        ([0, 1], ("é",), False),
        ([1, 2, 0], ("é",), False),  # complete before the last token
        ([0, 6, 7], ("答",), True),
        ([0, 6, 7], ("答!", "x"), True),
        ([4, 0], ("A ",), True),
        ([3, 4], ("<s>",), False),
        ([3, 4, 5], ("<s>", "# Q:"), True),
    ],
)
def test_a_stop_string_ends_a_response_with_the_token_that_completes_it(engine, ids, stops, ends):
    assert engine._stopped(ids, stops) is ends


def test_the_text_ends_with_the_stop_that_ended_the_response():
    """Of two, one stands within the first tokens, which `min_tokens` keeps from ending anything."""
    assert response_text(Tokens().decode, [0, 3, 4, 5], "stop", ("<s>", "# Q:")) == "A <s> then # Q:"
    assert response_text(Tokens().decode, [0, 6, 7], "stop", ("答",)) == "A 答"


@pytest.mark.parametrize("named", [9999, -1, [0, 9999], None])
def test_end_tokens_that_the_model_cannot_choose_are_none(named):
    words, model = tokenizer(), llama()
    assert end_token_ids(GenerationConfig(eos_token_id=named), words, 400) == [words.eos_token_id]
    model.generation_config = GenerationConfig(eos_token_id=named)
    sampling = Sampling(min_tokens=4, max_tokens=6, stop=())
    assert len(TransformersEngine(model, words).generate([Request([11, 12], [1])], sampling)[0][0].token_ids) >= 5
