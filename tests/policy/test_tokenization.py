import copy

import pytest
import torch
from tokenizers import processors

from stages.policy.tokenization import pad_prompts_and_outputs, prompt_ids, tokenize_prompt_and_output
from tests import tiny


class Characters:
    """A tokenizer of single characters that, like many, adds a BOS unless told not to; `$` is its EOS."""

    def __init__(self, pad_token_id=None, eos_token_id=2):
        self.pad_token_id, self.eos_token_id = pad_token_id, eos_token_id

    def encode(self, text, *, add_special_tokens):
        ids = [2 if character == "$" else ord(character) for character in text]
        return [1, *ids] if add_special_tokens else ids


def test_ids_labels_and_mask_by_hand():
    batch = tokenize_prompt_and_output(["ab", "c"], ["xyz", "w"], Characters(pad_token_id=0))
    a, b, c, w, x, y, z = map(ord, "abcwxyz")
    assert batch["input_ids"].tolist() == [[a, b, x, y], [c, w, 0, 0]]
    assert batch["labels"].tolist() == [[b, x, y, z], [w, 0, 0, 0]]
    assert batch["response_mask"].tolist() == [[False, True, True, True], [True, False, False, False]]
    assert {name: tensor.dtype for name, tensor in batch.items()} == {
        "input_ids": torch.int64,
        "labels": torch.int64,
        "response_mask": torch.bool,
    }


def test_exactly_one_eos_is_trained_on_where_eos_is_also_the_padding():
    batch = tokenize_prompt_and_output(["ab", "c"], ["xyz$", "w$"], Characters())
    is_eos = batch["labels"] == 2
    assert is_eos.sum(dim=-1).tolist() == [1, 4]
    assert (is_eos & batch["response_mask"]).sum(dim=-1).tolist() == [1, 1]


def test_the_masked_in_labels_are_the_output_and_nothing_else():
    prompts, outputs = ["p", "prompt", "pro"], ["a long output", "", "out"]
    batch = tokenize_prompt_and_output(prompts, outputs, Characters())
    rows = zip(batch["labels"], batch["response_mask"], strict=True)
    assert ["".join(map(chr, labels[mask])) for labels, mask in rows] == outputs


def test_sampled_ids_are_padded_as_they_are():
    batch = pad_prompts_and_outputs([[7], [8, 9]], [[5, 6], [4]], pad_id=0)
    assert batch["input_ids"].tolist() == [[7, 5], [8, 9]]
    assert batch["labels"].tolist() == [[5, 6], [9, 4]]
    assert batch["response_mask"].tolist() == [[True, True], [False, True]]


def test_what_cannot_be_tokenized_is_named():
    with pytest.raises(ValueError, match="2 prompts but 1 outputs"):
        tokenize_prompt_and_output(["a", "b"], ["c"], Characters())
    with pytest.raises(ValueError, match="a prompt has no tokens"):
        tokenize_prompt_and_output([""], ["c"], Characters())
    with pytest.raises(ValueError, match="empty batch"):
        tokenize_prompt_and_output([], [], Characters())
    with pytest.raises(ValueError, match="neither a pad nor an eos token"):
        tokenize_prompt_and_output(["a"], ["c"], Characters(eos_token_id=None))


@pytest.mark.parametrize(
    ("form", "begins"), [("$A", False), ("$A {end}", False), ("{end} $A", True), ("{end} $A {end}", True)]
)
def test_a_prompt_keeps_what_a_tokenizer_puts_before_it_and_not_what_it_puts_after_it(form, begins):
    words = copy.deepcopy(tiny.tokenizer())
    end, bare = words.eos_token, tiny.tokenizer()("2 + 2?").input_ids
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=form.format(end=end), special_tokens=[(end, words.eos_token_id)]
    )
    assert prompt_ids(words, "2 + 2?") == [words.eos_token_id] * begins + bare
    assert prompt_ids(words, f"2 + 2?{end}")[-1] == words.eos_token_id  # one that the prompt itself spells out
