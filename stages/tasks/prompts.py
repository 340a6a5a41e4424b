"""The protocol strings: what a policy is shown around a question, kept byte for byte in `prompts/*.prompt`.

NOTICE says where each comes from. None may be reformatted: a changed blank moves the scores of a pretrained policy.
"""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"
_SLOT = re.compile(r"\{(question|instruction|response|subject|options\[\d\])\}")


def _read(name: str) -> str:
    return (_FOLDER / f"{name}.prompt").read_bytes().decode("utf-8")


PROMPTS: dict[str, str] = {
    "r1_zero": _read("r1_zero"),
    "question_only": _read("question_only"),
    "alpaca_sft": _read("alpaca_sft"),
    # What stands before the response in a document of alpaca_sft: the policy goes on from there.
    "alpaca": _read("alpaca_sft").removesuffix("{response}\n").replace("{instruction}", "{question}"),
    "gsm8k_zero_shot": _read("gsm8k_zero_shot"),
    "mmlu_zero_shot": _read("mmlu_zero_shot"),
    "zero_shot_system_prompt": _read("zero_shot_system_prompt"),
    # The same around any question, which may be one of the two above it.
    "zero_shot": _read("zero_shot_system_prompt").replace("{instruction}", "{question}"),
}


def slots(name: str) -> list[str]:
    """The fields a prompt must be given, in order: `question`, ..., `options[0]`; ValueError for an unknown name."""
    if name not in PROMPTS:
        raise ValueError(f"unknown prompt {name!r}; known: {', '.join(sorted(PROMPTS))}")
    return _SLOT.findall(PROMPTS[name])


def render(name: str, /, **fields: str | list[str] | tuple[str, ...]) -> str:
    """The prompt with its slots filled: `render("r1_zero", question=...)`.

    Fields are put in as they are, in one pass over the protocol string alone: braces, backslashes and even a literal
    `{question}` inside a field come through untouched. A list fills numbered slots (`options=[...]`). Raises ValueError
    where the fields are not exactly those of the prompt.
    """
    values: dict[str, str] = {}
    for key, value in fields.items():
        numbered = {key: value} if isinstance(value, str) else {f"{key}[{i}]": part for i, part in enumerate(value)}
        values.update(numbered)
    wanted = slots(name)
    missing, unused = [key for key in wanted if key not in values], [key for key in values if key not in wanted]
    if missing or unused:
        faults = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has no {', '.join(unused)}"] * bool(unused)
        raise ValueError(f"prompt {name!r} {' and '.join(faults)}; its slots are {', '.join(wanted)}")
    return _SLOT.sub(lambda slot: values[slot[1]], PROMPTS[name])
