"""What a judge is asked: the response that a person would see, put into the judge's prompt and template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from stages.policy.tokenization import prompt_ids
from stages.records import DataError

FOLDER = Path(__file__).parent / "prompts"
PROMPTS: dict[str, str] = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.prompt"))}
ORDERS: dict[str, tuple[int | None, ...]] = {"alpaca_eval": (1, 2), "simple_safety_tests": (None,)}
FENCE = "```"  # the zero-shot prompt opens one for the answer
_SLOT = re.compile(r"\{(instruction|response|first|second)\}")
_CONTENT = "@@@CONTENT@@@"


class Tokenizer(Protocol):
    """What is needed of a Hugging Face tokenizer."""

    chat_template: str | None

    def __call__(self, text: str, **options: Any) -> Any: ...

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> Any: ...


def answer_of(response: str, stop: Sequence[str]) -> str:
    """What a response says: without the stop string that ended it, and without the fence that closes the prompt's own.

    A last fence that belongs to a block of code within the response has its opening there, and stays.
    """
    for mark in stop:
        response = response.removesuffix(mark)
    response = response.strip()
    return response.removesuffix(FENCE).strip() if response.count(FENCE) % 2 else response


def question(kind: str, instruction: str, response: str, baseline: str | None, order: int | None) -> str:
    """The judge's prompt. `order` 1 shows the response first and the baseline second, 2 the other way round.

    Texts are put in as they are, in one pass: a slot's name within a response stays text.
    """
    first, second = (response, baseline) if order == 1 else (baseline, response)
    texts = {"instruction": instruction, "response": response, "first": first, "second": second}
    return _SLOT.sub(lambda slot: texts[slot[1]] or "", PROMPTS[kind])


def tokens_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of `text` as a user's message in the judge's chat template, or as it is where the judge has none.

    Special tokens come from the template alone. A response that spells one out, to end the message and to speak in the
    judge's name, is read as the characters that it is.
    """
    if tokenizer.chat_template is None:
        return prompt_ids(tokenizer, text, split_special_tokens=True)
    message = [{"role": "user", "content": _CONTENT}]
    around = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    before, found, after = around.partition(_CONTENT)
    if not found:
        raise DataError(
            "the judge's chat template leaves the user's message out; it is no template to ask a judge with"
        )
    parts = ((before, False), (text.strip(), True), (after, False))
    return [
        token
        for part, split in parts
        for token in tokenizer(part, add_special_tokens=False, split_special_tokens=split).input_ids
    ]
