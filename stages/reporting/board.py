"""Whether an accuracy may stand on the course's board: which rules it breaks, and which nothing here can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stages.reporting import wording
from stages.reporting.runs import Configuration

BUDGET = 4 * 3600.0  # seconds
GPUS = 2
MODEL = "Qwen/Qwen2.5-Math-1.5B"
QUESTIONS = 5000  # of MATH's validation set
# What the board measures with; a row measured otherwise is another number.
OFFICIAL = {"reward": "r1_zero", "prompt": "r1_zero", "sampling_temperature": 1.0, "sampling_max_tokens": 1024}
FORMS = ("math", "jsonl")  # sources that are a form of file, which MATH's own rows and others may have
CHECKED = (
    "budget, number of GPUs, name of the policy, start, form of the data, number of validation questions, name of the "
    "reward, prompt, temperature, tokens"
)


def faults(best: Configuration, last: Sequence[Mapping[str, Any]], context: Mapping[str, Any]) -> Iterator[str]:
    """Every rule that the winner breaks. `last`: of each run the last validation within its budget, if there is one.

    `context`, from the specification: `model`, where the base policy comes from; `data`, dataset of the runs -> the
    dataset that it was chosen from (its `name` and source); `reference`, whether the course's grader has read its
    responses as well.
    """
    values = best.runs[0].values
    if len(last) < len(best.runs):
        yield "a run had no validation that ended within the budget"
    budget = values.get("max_seconds")
    if budget is None or budget > BUDGET:
        yield f"the budget is {wording.duration(budget or 0.0)}, the board's is {wording.duration(BUDGET)}"
    if (gpus := max(run.hardware.get("gpus", 0) for run in best.runs)) > GPUS:
        yield f"a run had {gpus} GPUs, the board's have {GPUS}"
    if (found := _model(context)) != MODEL and not _is_folder(context):
        yield f"the policy is {found}, the board's is {MODEL}"
    if values.get("start_from"):
        yield f"training starts from the winner of {values['start_from']}, the board's from {MODEL} itself"
    for role in ("train", "validation"):
        source = _origin(values, role, context)
        if source and source["source"] not in FORMS:
            yield f"{role} is {source['name']} (source {source['source']}), the board's is of MATH"
    asked = {row.get("num_examples") or 0 for row in last}
    if asked - {QUESTIONS}:
        yield f"validation was on {wording.listed(sorted(asked))} questions, the board's is on all {QUESTIONS}"
    for key, wanted in OFFICIAL.items():
        if values.get(key) != wanted:
            yield f"{key} is {wording.number(values.get(key))}, the board's is {wording.number(wanted)}"


def unchecked(best: Configuration, context: Mapping[str, Any]) -> Iterator[str]:
    """What the rules ask for and no file here can show."""
    values = best.runs[0].values
    if not context.get("model"):
        yield "which policy training starts from"
    elif _is_folder(context):
        yield f"that the folder {context['model']['path']} holds {MODEL} as it was published"
    named = [source for role in ("train", "validation") if (source := _origin(values, role, context))]
    if len(named) < 2:
        yield "which data it trains on and validates on"
    if named:
        listed = wording.listed(list(dict.fromkeys(source["name"] for source in named)))
        yield f"that the rows of {listed} are MATH's own, and no question of validation stands in train"
    if context.get("stage") in ("sft", "expert_iteration") and values.get("train"):
        yield "that no stronger model wrote the responses that it imitates"
    chosen = (context.get("data") or {}).get(values.get("train"), {}).get("chosen_by")
    if chosen:
        yield f"the time that choosing questions took (evaluation {chosen}), which its budget leaves out"
    yield "that the GPUs are H100s"
    official = by_reference(best, context)
    if official:
        yield f"that {official[0]['file']} is the course's own"
    else:
        yield "what the course's own grader makes of the responses (key reference_grader of a config)"


def by_reference(best: Configuration, context: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the course's grader made of each run's responses, as `stages.grade --reference` wrote it; [] without it."""
    if not context.get("reference"):
        return []
    return [json.loads((run.folder / "reference.json").read_text(encoding="utf-8")) for run in best.runs]


def _model(context: Mapping[str, Any]) -> str:
    model = context.get("model") or {}
    return model.get("hub") or ("one made here" if model else MODEL)


def _is_folder(context: Mapping[str, Any]) -> bool:
    return bool((context.get("model") or {}).get("path"))


def _origin(values: Mapping[str, Any], role: str, context: Mapping[str, Any]) -> Mapping[str, Any]:
    return (context.get("data") or {}).get(values.get(role)) or {}
