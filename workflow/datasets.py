"""The `data` section: one typed source for each dataset, and what can be said about it before it exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from stages.sources import Curated, DataSource, JsonLines, MathStyle, PassRate, ReasoningGym
from stages.strict import ConfigError, nearest, parse
from stages.tasks import reasoning_gym_answers

SOURCES = {get_args(kind.model_fields["source"].annotation)[0]: kind for kind in get_args(get_args(DataSource)[0])}
Datasets = Mapping[str, Any]
BASE = "base"  # the policy that evaluations and training start from, unless they name an experiment


def read(data: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Name -> typed source; raises ConfigError listing the faults of all of them."""
    sources, faults = {}, []
    for name, values in data.items():
        try:
            sources[name] = _source(name, values)
        except ConfigError as error:
            faults.append(str(error))
    if not faults:
        faults = [fault for name in sources for fault in _faults(name, sources)]
    if faults:
        raise ConfigError("\n".join(faults))
    return sources


def _source(name: str, values: dict[str, Any]) -> Any:
    kind = values.get("source")
    if kind not in SOURCES:
        wrong = "missing" if kind is None else f"unknown source {kind!r}"
        raise ConfigError(f"data.{name}.source: {wrong}; {nearest(str(kind), list(SOURCES))}")
    return parse(SOURCES[kind], values, f"data.{name}")


def _faults(name: str, data: Datasets) -> Iterator[str]:
    source = data[name]
    yield from braces(f"data.{name}.path", getattr(source, "path", None))
    if isinstance(source, ReasoningGym) and (fault := reasoning_gym_answers.fault(source.dataset)) is not None:
        yield f"data.{name}.dataset: {fault}"
    if isinstance(source, Curated):
        yield from _curation_faults(f"data.{name}.dataset", source.dataset, data)


def _curation_faults(key: str, origin: str, data: Datasets) -> Iterator[str]:
    if origin not in data:
        yield from unknown(key, origin, data)
    elif data[origin].rows != "questions":
        yield from other_rows(key, origin, "questions", data)
    elif isinstance(data[origin], Curated):
        yield f"{key}: {origin} is curated already; name the dataset that it was curated from"
    elif not has_responses(origin, data):
        yield f"{key}: {origin} has no worked responses to grade; {with_responses(data)}"


def unknown(key: str, name: str, data: Datasets) -> Iterator[str]:
    """The fault of a `key` that names a dataset which is not in the config."""
    if name not in data:
        yield f"{key}: no dataset named {name!r}; {nearest(str(name), list(data))}"


def other_rows(key: str, name: str, wanted: str, data: Datasets) -> Iterator[str]:
    """The fault of a `key` that names a dataset of another kind of rows than are `wanted`."""
    if name in data and data[name].rows != wanted:
        fitting = ", ".join(other for other, source in data.items() if source.rows == wanted) or "no dataset"
        yield f"{key}: {name} holds {data[name].rows}, and {wanted} are needed here; {fitting} would do"


def other_reward(key: str, name: str, reward: str | None, data: Datasets) -> Iterator[str]:
    """The fault of a `key` that names a dataset whose answers `reward` cannot read; None and "none" read nothing."""
    source = data.get(name)
    origin = data.get(source.dataset) if isinstance(source, Curated) else source
    if origin is None or reward in (None, "none", *origin.rewards):
        return
    if not origin.rewards:
        yield f"{key}: {name} has no right answers for reward {reward} to find; write reward: none, for a judge"
    else:
        yield f"{key}: reward {reward} cannot read the answers of {name}; {' or '.join(origin.rewards)} can"


def pass_rate_faults(data: Datasets, evaluations: Mapping[str, Any]) -> Iterator[str]:
    """Faults of the datasets that are chosen by an evaluation's outcome."""
    for name, source in data.items():
        if isinstance(source, PassRate):
            key, wanted = f"data.{name}.evaluation", source.evaluation
            if wanted not in evaluations:
                yield f"{key}: no evaluation named {wanted!r}; {nearest(wanted, list(evaluations))}"
            elif evaluations[wanted].model != BASE:
                policy = evaluations[wanted].model
                yield f"{key}: {wanted} samples from the winner of {policy}, which may train on {name}"
            elif evaluations[wanted].reward == "none":
                yield f"{key}: {wanted} grades nothing (reward none), so there are no pass rates"
            elif isinstance(data.get(evaluations[wanted].dataset), PassRate):
                yield f"{key}: {wanted} samples from a dataset of pass rates itself; name one that does not"


def has_responses(name: str, data: Datasets) -> bool:
    """Whether a dataset carries a worked response beside each question, which fine-tuning imitates."""
    source = data[name]
    if isinstance(source, JsonLines):
        return source.response is not None
    if isinstance(source, MathStyle):
        return source.responses
    return source.source in ("arithmetic_traces", "gsm8k", "tulu3", "dart_math", "curated")


def with_responses(data: Datasets) -> str:
    names = [name for name in data if has_responses(name, data)]
    return f"those that do: {', '.join(names) or 'none (see source arithmetic_traces, or jsonl with response)'}"


def braces(key: str, path: str | None) -> Iterator[str]:
    """The fault of a path that Snakemake would fill in like a wildcard, once jobs are planned."""
    if path is not None and ("{" in path or "}" in path):
        yield f"{key}: a path cannot hold braces, which Snakemake reads as wildcards (got {path!r}); rename it"


def absent(key: str, path: str) -> str | None:
    """What to say of a file or folder of the user's that is not there; None where it is.

    No fault of the config: a preset can be planned on a machine that its data never comes to.
    """
    if Path(path).exists():
        return None
    hint = "~ is not read as your home" if path.startswith("~") else f"relative paths start at {Path.cwd()}"
    return f"{key}: there is no {path} ({hint})"
