"""The `experiments` section: from an experiment to its runs, each with its values and the path that names it."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from stages.config import STAGES, FineTuned, Sampled
from stages.reporting.measures import SEED_NOISE
from stages.strict import ConfigError, Strict, explain, nearest
from workflow import datasets
from workflow.datasets import Datasets

Values = dict[str, Any]
DATASET_KEYS = ("train", "validation")
TUNING_KEYS = set(FineTuned.model_fields) - set(Sampled.model_fields)


class Experiment(Strict):
    """Runs of one training stage: every point of the grid x every case (the arms) x every tuned value x every seed."""

    stage: Literal[*STAGES]
    description: str = ""
    fixed: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    cases: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)] = ({},)
    tune: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="values that each arm is tried with; the arms are compared at the best of their own",
    )
    default: dict[str, Any] = Field(
        default_factory=dict,
        description="the arm that is passed on unless another is ahead of it by more than chance explains; without it "
        "the arm of the values under fixed and the stage's own, if there is one, else the first",
    )
    seed_noise: Annotated[float, Field(ge=0, lt=float("inf"))] = Field(
        default=SEED_NOISE,
        description="standard deviation between seeds, in what runs are judged by, to reckon with where arms have one "
        "seed, which shows none",
    )
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    inherit: dict[str, str] = Field(default_factory=dict)
    compare_with: tuple[str, ...] = ()  # earlier experiments whose winners its curves and table show as reference

    def swept(self) -> dict[str, Any]:
        """The keys that this experiment decides (of grid, cases and what is tuned), each with one of its values."""
        first = {key: value for case in reversed(self.cases) for key, value in case.items()}
        return first | {key: values[0] for key, values in {**self.grid, **self.tune}.items()}

    def starts(self) -> list[str]:
        """The earlier experiments whose winners' checkpoints its runs start from, in the order of the config."""
        given = [{**self.fixed, **point}.get("start_from") for point in points(self)]
        return list(dict.fromkeys(name for name in given if name is not None))


Experiments = Mapping[str, Experiment]


def runs(experiments: Experiments, data: Datasets) -> dict[str, dict[str, Values]]:
    """Experiment -> run path -> values, defaults filled in and inherited keys left out (the job reads those).

    Raises ConfigError listing the faults of all experiments.
    """
    table: dict[str, dict[str, Values]] = {}
    faults = list(_cycles(experiments))
    for name in experiments:
        own = list(_faults(name, experiments))
        if not own:
            table[name], own = _runs(name, experiments, data)
        faults += own
    if faults:
        raise ConfigError("\n".join(faults))
    return table


# ---------------------------------------------------------------- one experiment beside the others


def _faults(name: str, experiments: Experiments) -> Iterator[str]:
    experiment, where = experiments[name], f"experiments.{name}"
    for section in ("fixed", "grid", "tune", "inherit"):
        if "seed" in getattr(experiment, section):
            yield f"{where}.{section}.seed: seeds have a key of their own: seeds: [0, 1]"
    for index, case in enumerate(experiment.cases):
        if "seed" in case:
            yield f"{where}.cases[{index}].seed: seeds have a key of their own: seeds: [0, 1]"
        for section in ("grid", "tune"):
            for key in sorted(set(case) & set(getattr(experiment, section))):
                yield f"{where}.cases[{index}].{key}: stands under {section} as well; keep one of them"
    for section in ("grid", "tune"):
        for key in sorted(set(getattr(experiment, section)) & set(experiment.fixed)):  # a case may override a fixed one
            yield f"{where}.fixed.{key}: stands under {section} as well; keep one of them"
    for key in sorted(set(experiment.tune) & set(experiment.grid)):
        yield f"{where}.tune.{key}: stands under grid as well; keep one of them"
    yield from _default_faults(name, experiment)
    for key, source in experiment.inherit.items():
        yield from _inheritance_faults(key, source, name, experiments)
    for source in experiment.starts():
        if source not in experiments:
            yield f"{where}.start_from: no experiment named {source!r}; {nearest(str(source), list(experiments))}"
    yield from _comparison_faults(name, experiments)


def _default_faults(name: str, experiment: Experiment) -> Iterator[str]:
    where, arms = f"experiments.{name}.default", _arm_keys(experiment)
    for key in sorted(set(experiment.default) - set(arms)):
        if key in experiment.tune:
            yield f"{where}.{key}: every arm tunes it; name what tells the arms apart ({', '.join(arms) or 'nothing'})"
        else:
            yield f"{where}.{key}: {name} does not sweep {key}; it sweeps {', '.join(arms) or 'nothing'}"


def _inheritance_faults(key: str, source: str, name: str, experiments: Experiments) -> Iterator[str]:
    experiment, where = experiments[name], f"experiments.{name}.inherit.{key}"
    if source not in experiments:
        yield f"{where}: no experiment named {source!r}; {nearest(source, list(experiments))}"
    elif key in DATASET_KEYS:
        yield f"{where}: a dataset cannot be inherited; name it under fixed"
    elif key == "start_from":
        yield f"{where}: where runs start from cannot be inherited; name an experiment under fixed"
    elif key not in experiments[source].swept():
        swept = ", ".join(experiments[source].swept()) or "nothing"
        yield f"{where}: {source} does not sweep {key}; it sweeps {swept}"
    elif experiment.stage == "expert_iteration" and key not in TUNING_KEYS:
        yield f"{where}: expert iteration inherits what its fine-tuning uses alone; give {key} a value here"
    if key in experiment.fixed or key in experiment.swept():
        yield f"{where}: {key} is given a value in this experiment as well; keep one of them"


def _comparison_faults(name: str, experiments: Experiments) -> Iterator[str]:
    where, sources = f"experiments.{name}.compare_with", experiments[name].compare_with
    for source in dict.fromkeys(sources):
        if source not in experiments:
            yield f"{where}: no experiment named {source!r}; {nearest(source, list(experiments))}"
        elif source == name:
            yield f"{where}: {name} is shown by itself already; leave it out"
        elif sources.count(source) > 1:
            yield f"{where}: {source} stands here more than once"


def _cycles(experiments: Experiments) -> Iterator[str]:
    """Walk from each experiment to those it builds on or is compared with; meeting the start again is a cycle."""
    for start in experiments:
        trails, reached = [(start,)], set()
        while trails:
            trail = trails.pop()
            for source in sorted(_earlier(trail[-1], experiments)):
                if source == start:
                    circle = [*trail, start]
                    key = _link(experiments[start], circle[1])
                    yield f"experiments.{start}.{key}: goes round in a circle: {' -> '.join(circle)}"
                elif source not in reached:
                    reached.add(source)
                    trails.append((*trail, source))


def _earlier(name: str, experiments: Experiments) -> set[str]:
    experiment = experiments[name]
    compared = set(experiment.compare_with) - {name}  # a fault of its own
    return (set(experiment.inherit.values()) | set(experiment.starts()) | compared) & set(experiments)


def _link(experiment: Experiment, earlier: str) -> str:
    """The key through which an experiment comes after an earlier one."""
    if earlier in experiment.inherit.values():
        return "inherit"
    return "start_from" if earlier in experiment.starts() else "compare_with"


def lineage(name: str, experiments: Experiments) -> list[str]:
    """Every experiment that `name` inherits or starts from, directly or not, each after those that it builds on."""
    found: dict[str, None] = {}
    for source in sorted({*experiments[name].inherit.values(), *experiments[name].starts()}):
        found |= dict.fromkeys([*lineage(source, experiments), source])
    return list(found)


# ---------------------------------------------------------------- the runs of one experiment


def _runs(name: str, experiments: Experiments, data: Datasets) -> tuple[dict[str, Values], list[str]]:
    """(run path -> values, faults)"""
    experiment = experiments[name]
    # What an inherited key will be is known when the earlier experiment has ended; one of its values stands in.
    stand_in = {key: experiments[source].swept()[key] for key, source in experiment.inherit.items()}
    table: dict[str, Values] = {}
    faults: list[str] = []
    for own in points(experiment):
        path = run_path(own)
        if path in table:
            faults.append(f"experiments.{name}: two runs are the same: {path}")
        try:
            settings = STAGES[experiment.stage].model_validate({**stand_in, **experiment.fixed, **own})
        except ValidationError as error:
            lines = explain(error, "", STAGES[experiment.stage]).splitlines()
            faults += [f"experiments.{name}{_place(line, experiment, own)}" for line in lines]
            continue
        values = settings.model_dump(mode="json")
        for line in _dataset_faults(experiment.stage, values, data):
            faults.append(f"experiments.{name}{_place(line, experiment, own)}")
        table[path] = {key: value for key, value in values.items() if key not in experiment.inherit}
    if not faults and not _has(table[arms(experiment, table)[0][0]], experiment.default):
        faults.append(f"experiments.{name}.default: no arm has these values; name those of one")
    return table, faults


def points(experiment: Experiment) -> Iterator[Values]:
    """The values that tell each run from its siblings, seed last, in the order of the config."""
    for point in itertools.product(*experiment.grid.values()):
        for case in experiment.cases:
            arm = {**dict(zip(experiment.grid, point, strict=True)), **case}
            for tuned in itertools.product(*experiment.tune.values()):
                for seed in experiment.seeds:
                    yield {**arm, **dict(zip(experiment.tune, tuned, strict=True)), "seed": seed}


def _arm_keys(experiment: Experiment) -> list[str]:
    return sorted(set(experiment.grid).union(*experiment.cases))


def arms(experiment: Experiment, table: Mapping[str, Values]) -> list[list[str]]:
    """The paths of the runs of each arm, tuned values and seeds together: the default's first, then in the order of the
    config. `table`: run path -> values, as `runs` has them.

    The default is the first arm that agrees with `default` and, as far as one does, with the other values under fixed
    and those of the stage; an experiment without a word about it has none, and its first arm stands in.
    """
    keys = _arm_keys(experiment)
    found: dict[str, list[str]] = {}
    for path in map(run_path, points(experiment)):
        found.setdefault(json.dumps([table[path].get(key) for key in keys]), []).append(path)
    fields = STAGES[experiment.stage].model_fields
    usual = (
        {key: fields[key].default for key in keys if key in fields and not fields[key].is_required()}
        | experiment.fixed
        | experiment.default
    )
    whole, named = ({key: usual[key] for key in keys if key in usual}, experiment.default)
    listed = list(found.values())
    first = next((arm for wanted in (whole, named) for arm in listed if _has(table[arm[0]], wanted)), None)
    return sorted(listed, key=lambda arm: arm is not first)


def _has(values: Values, wanted: Mapping[str, Any]) -> bool:
    return all(values.get(key) == json.loads(json.dumps(value)) for key, value in wanted.items())


def run_path(own: Values) -> str:
    return "/".join(f"{key}={_shown(value)}" for key, value in own.items())


def _shown(value: Any) -> str:
    """A value as part of a path. What a path cannot carry is replaced, and a hash keeps different values apart."""
    text = value if isinstance(value, str) else json.dumps(value)
    if re.fullmatch(r"[\w.+-]+", text):
        return text
    return re.sub(r"[^\w.+-]+", "_", text)[:40] + "-" + hashlib.sha256(text.encode()).hexdigest()[:6]


def _place(line: str, experiment: Experiment, own: Values) -> str:
    """Prefix a fault `key: text` of the run with its `own` values with the place where the key was given."""
    key = re.split(r"[.:]", line, maxsplit=1)[0]
    if not key:  # a fault of several values together
        return f" ({run_path(own)}){line}"
    for section in ("grid", "tune", "inherit"):
        if key in getattr(experiment, section):
            return f".{section}.{line}"
    for index, case in enumerate(experiment.cases):
        if key in case and all(own[name] == value for name, value in case.items()):
            return f".cases[{index}].{line}"
    return f".fixed.{line}"


def _dataset_faults(stage: str, values: Values, data: Datasets) -> Iterator[str]:
    for key in DATASET_KEYS:
        yield from datasets.unknown(key, values[key], data)
        yield from datasets.other_rows(key, values[key], STAGES[stage].rows, data)
        yield from datasets.other_reward(key, values[key], values.get("reward"), data)
    train, validation = (data.get(values[key]) for key in DATASET_KEYS)
    if train is not None and train == validation:
        yield f"validation: {values['validation']} is what the run trains on; name a dataset that it never sees"
    size, wanted = getattr(train, "size", None) or math.inf, values.get("num_examples", "full")
    if wanted != "full" and wanted > size:
        yield f"num_examples: {wanted} of the {size} that {values['train']} has; write full, or a number of them"
    rows_fit = values["train"] in data and data[values["train"]].rows == STAGES[stage].rows
    if stage == "sft" and rows_fit and not datasets.has_responses(values["train"], data):
        yield f"train: {values['train']} has no worked responses to imitate; {datasets.with_responses(data)}"
