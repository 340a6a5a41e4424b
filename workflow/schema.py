"""The config file as typed, checked objects. Every fault is found at planning time: one line, with its dotted key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from snakemake_interface_common.exceptions import WorkflowError

from stages.config import Evaluation
from stages.grading import reference
from stages.hardware import Compute
from stages.judges import Judge
from stages.sources import ModelSource
from stages.strict import ConfigError, Named, Strict, nearest, parse
from workflow import datasets, experiments, tested
from workflow.datasets import BASE
from workflow.experiments import Experiment
from workflow.tested import HeldOut

RESERVED = (
    BASE,
    "runs",
    "winners",
    "models",
    "data",
    "evaluations",
    "judgements",
    "logs",
    "report",
    "ladder",
    "preset",
)  # what else lies in results/
MODEL_FILES = {
    "config.json": ["config.json"],
    "a tokenizer (tokenizer.json)": ["tokenizer.json", "tokenizer.model", "vocab.json"],
    "weights (*.safetensors, the one format that is read)": ["*.safetensors"],
}


class Layout(Strict):
    """The top level of a config file. `data` is read source by source, so that its faults name plain keys."""

    preset: str
    results: str = "results"
    model: ModelSource
    compute: Compute = Compute()
    data: dict[str, dict[str, Any]]
    evaluations: dict[str, Evaluation] = Field(default_factory=dict)
    judges: dict[str, Judge] = Field(default_factory=dict)
    experiments: dict[str, Experiment] = Field(default_factory=dict)
    test: HeldOut | None = None
    reference_grader: Named | None = Field(
        default=None, description="the course's drgrpo_grader.py, to grade runs of a leaderboard with as well"
    )
    main: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Config:
    """A config file without faults. `runs`: experiment -> run path -> values, defaults filled in. `main`: the
    experiments of the default target. `tests`: those of the evaluations that measure on the test set -> the
    experiments that they are for. `added`: those of them that nobody wrote down."""

    preset: str
    results: str
    model: ModelSource
    compute: Compute
    data: dict[str, Any]
    evaluations: dict[str, Evaluation]
    judges: dict[str, Judge]
    experiments: dict[str, Experiment]
    runs: dict[str, dict[str, dict[str, Any]]]
    tests: dict[str, tuple[str, ...]]
    added: frozenset[str]
    reference_grader: str | None
    main: tuple[str, ...]


def load(config: dict[str, Any]) -> Config:
    """Check a config as Snakemake read it; raises WorkflowError with one line for each fault."""
    try:
        layout = parse(Layout, config, "")
        _raise([*_name_faults(layout), *_model_faults(layout.model), *_grader_faults(layout.reference_grader)])
        data = datasets.read(layout.data)
        _raise(
            [
                *_evaluation_faults(layout, data),
                *_judge_faults(layout, data),
                *datasets.pass_rate_faults(data, layout.evaluations),
            ]
        )
        runs = experiments.runs(layout.experiments, data)
        _raise(tested.faults(layout.test, data, layout.evaluations, runs))
        planned = tested.plan(layout.test, layout.evaluations, layout.experiments, runs)
        _raise(tested.reading_faults(planned, layout.evaluations, data))
    except ConfigError as error:
        lines = dict.fromkeys(str(error).splitlines())  # the runs of one experiment share their faults
        raise WorkflowError("the config cannot work:\n" + "\n".join(f"  {line}" for line in lines)) from None
    main = tuple(layout.experiments) if layout.main is None else layout.main
    return Config(
        preset=layout.preset,
        results=os.path.normpath(layout.results),
        model=layout.model,
        compute=layout.compute,
        data=data,
        evaluations=layout.evaluations | {name: evaluation for name, (evaluation, _) in planned.items()},
        judges=layout.judges,
        experiments=layout.experiments,
        runs=runs,
        tests={name: of for name, (_, of) in planned.items()},
        added=frozenset(planned) - layout.evaluations.keys(),
        reference_grader=layout.reference_grader,
        main=main,
    )


def _raise(faults: Iterator[str] | list[str]) -> None:
    if faults := list(faults):
        raise ConfigError("\n".join(faults))


def _name_faults(layout: Layout) -> Iterator[str]:
    if not re.fullmatch(r"[a-z0-9_.-]+", layout.preset):
        yield f"preset: names are made of a-z, 0-9, _ - and . (got {layout.preset!r})"
    if not re.fullmatch(r"[\w./-]*\w/?", layout.results):
        yield f"results: a folder's name is made of letters, digits, _ - . and / (got {layout.results!r})"
    for section in ("data", "evaluations", "judges", "experiments"):
        for name in getattr(layout, section):
            if not re.fullmatch(r"[a-z0-9_]+", name):
                yield f"{section}.{name}: names are made of a-z, 0-9 and _"
            elif section == "experiments" and name in RESERVED:
                yield f"{section}.{name}: {layout.results}/{name} has another meaning; choose another name"
    for name in layout.main or ():
        if name not in layout.experiments:
            yield f"main: no experiment named {name!r}; {nearest(name, list(layout.experiments))}"


def _model_faults(model: ModelSource) -> Iterator[str]:
    """Of a folder that is there; one that is missing stops the jobs that read it, not the plan."""
    yield from datasets.braces("model.path", model.path)
    if model.path is None or not (folder := Path(model.path)).exists():
        return
    if not folder.is_dir():
        yield f"model.path: {model.path} is a file; give the folder that save_pretrained wrote"
        return
    for what, patterns in MODEL_FILES.items():
        if not any(found for pattern in patterns for found in folder.glob(pattern)):
            yield f"model.path: {model.path} lacks {what}; give a folder that save_pretrained wrote"


def _grader_faults(file: str | None) -> Iterator[str]:
    if file is not None and (fault := reference.fault(file)) is not None:
        yield f"reference_grader: {fault}"


def _evaluation_faults(layout: Layout, data: dict[str, Any]) -> Iterator[str]:
    policies = [BASE, *layout.experiments]
    for name, evaluation in layout.evaluations.items():
        yield from datasets.unknown(f"evaluations.{name}.dataset", evaluation.dataset, data)
        yield from datasets.other_rows(f"evaluations.{name}.dataset", evaluation.dataset, "questions", data)
        yield from datasets.other_reward(f"evaluations.{name}.dataset", evaluation.dataset, evaluation.reward, data)
        if evaluation.model not in policies:
            hint = nearest(evaluation.model, policies)
            yield f"evaluations.{name}.model: neither {BASE!r} nor an experiment (got {evaluation.model!r}); {hint}"


def _judge_faults(layout: Layout, data: dict[str, Any]) -> Iterator[str]:
    for name, judge in layout.judges.items():
        for wanted, prompt in judge.evaluations.items():
            key = f"judges.{name}.evaluations.{wanted}"
            evaluation = layout.evaluations.get(wanted)
            if evaluation is None:
                yield f"{key}: no evaluation named {wanted!r}; {nearest(wanted, list(layout.evaluations))}"
            elif evaluation.group_size > 1:
                yield f"{key}: a judge reads one response to each instruction; give {wanted} group_size 1"
            elif prompt == "alpaca_eval" and not getattr(data.get(evaluation.dataset), "has_baseline", False):
                yield f"{key}: {evaluation.dataset} has no baseline to compare with; judge it by another prompt"
