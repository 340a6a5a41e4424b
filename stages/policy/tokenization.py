"""Prompt and response to token ids, with the boundary between them kept."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    pad_token_id: int | None
    eos_token_id: int | None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...


def prompt_ids(tokenizer: Any, text: str, **options: Any) -> list[int]:
    """Token ids of a prompt, with what the tokenizer puts before a text (BOS) and without what it puts after one.

    Some tokenizers close every text with an end token; a response would then begin after its end.
    """
    ids, bare = tokenizer(text, **options).input_ids, tokenizer(text, add_special_tokens=False, **options).input_ids
    after = (at for at in range(len(ids) - len(bare) + 1) if bare and ids[at : at + len(bare)] == bare)
    start = next(after, None)
    return list(ids) if start is None else list(ids[: start + len(bare)])


def tokenize_prompt_and_output(
    prompt_strs: Sequence[str], output_strs: Sequence[str], tokenizer: Tokenizer
) -> dict[str, Tensor]:
    """Tokenize prompts and outputs apart, join and right-pad them.

    Apart, because tokenizing the joined string could merge the last characters of the prompt with the first
    of the output, and no position would be the boundary. No special token is added: a prompt that needs a
    BOS carries it, an output that needs an EOS ends in it.

    Returns, with T = max(prompt + output length) - 1: `input_ids` int64 [B, T], the ids without their last;
    `labels` int64 [B, T], the ids without their first; `response_mask` bool [B, T], true where the *label*
    is an output token. The mask counts positions, not ids, so an EOS inside an output is trained on even
    where the padding is EOS.
    """
    if len(prompt_strs) != len(output_strs):
        raise ValueError(f"{len(prompt_strs)} prompts but {len(output_strs)} outputs")
    prompts = [tokenizer.encode(text, add_special_tokens=False) for text in prompt_strs]
    outputs = [tokenizer.encode(text, add_special_tokens=False) for text in output_strs]
    return pad_prompts_and_outputs(prompts, outputs, pad_token_id(tokenizer))


def pad_prompts_and_outputs(
    prompts: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], pad_id: int
) -> dict[str, Tensor]:
    """The same from token ids. Rollouts are scored on the ids that were sampled, not on re-tokenized text."""
    lengths = [len(prompt) + len(output) for prompt, output in zip(prompts, outputs, strict=True)]
    if not lengths:
        raise ValueError("an empty batch cannot be padded: give at least one prompt")
    if 0 in map(len, prompts):
        raise ValueError("a prompt has no tokens: the first output token would have nothing to be predicted from")
    ids = torch.full((len(lengths), max(lengths)), pad_id, dtype=torch.int64)
    mask = torch.zeros(ids.shape, dtype=torch.bool)
    for row, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        ids[row, : lengths[row]] = torch.tensor([*prompt, *output], dtype=torch.int64)
        mask[row, len(prompt) : lengths[row]] = True
    return {"input_ids": ids[:, :-1], "labels": ids[:, 1:], "response_mask": mask[:, 1:]}


def pad_token_id(tokenizer: Tokenizer) -> int:
    """The tokenizer's pad id, else its EOS id. The mask goes by position, so either is safe."""
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return token_id
    raise ValueError("the tokenizer has neither a pad nor an eos token; set tokenizer.pad_token before padding")
