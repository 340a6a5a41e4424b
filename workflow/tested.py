"""The `test` section: each winner and the base policy, measured once on questions that no choice has seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from pydantic import Field, ValidationError

from stages.config import STAGES, Evaluation, Sampled
from stages.sources import Curated, PassRate
from stages.strict import Strict
from workflow import datasets
from workflow.datasets import BASE, Datasets
from workflow.experiments import DATASET_KEYS, Experiments, Values

ASKED = tuple(key for key in Sampled.model_fields if key != "seed")  # how the runs of an experiment are asked
SAME = tuple(key for key in ASKED if key != "sampling_batch_size")  # those of them that an answer depends on
BESIDE = {"size", "seed", "question", "answer", "response", "responses", "rendered", "wrong_fraction"}
BESIDE |= {"question_form", "max_left_out", "max_bytes"}


class HeldOut(Strict):
    """`dataset` is for this alone: nothing trains on it, validates on it or is chosen by it."""

    dataset: str = Field(description="questions that nothing trains on, validates on or is chosen by")


Evaluations = Mapping[str, Evaluation]
Plan = dict[str, tuple[Evaluation, tuple[str, ...]]]  # name -> evaluation, and the experiments that it is for


def plan(
    test: HeldOut | None, given: Evaluations, experiments: Experiments, runs: Mapping[str, Mapping[str, Values]]
) -> Plan:
    """The evaluations on the test set: of the winner of every experiment that is judged by answers, asked as its runs
    are, and of the base policy, asked in each of those ways.

    Where runs of one experiment are asked in several ways, its winner is in each. One of the `given` evaluations that
    says the same is taken instead of another.
    """
    if test is None:
        return {}
    of: dict[tuple[Any, ...], list[str]] = {}  # policy and way -> the experiments that it is for
    ways: dict[tuple[Any, ...], Values] = {}
    for name in experiments:
        for way in _ways(name, experiments, runs):
            for model in (name, BASE):
                key = (model, *_told(way))
                ways.setdefault(key, way)
                of.setdefault(key, []).append(name)
    planned: Plan = {}
    for key, way in ways.items():
        wanted = Evaluation(dataset=test.dataset, model=key[0], **way)
        same = [name for name, one in given.items() if _asks_the_same(one, wanted)]
        of_this_policy = sum(other[0] == key[0] for other in ways)
        name = same[0] if same else _free(f"test_{key[0]}" + f"_{wanted.prompt}" * (of_this_policy > 1), planned)
        planned[name] = (given[name] if same else wanted, tuple(of[key]))
    return planned


def _free(name: str, taken: Plan) -> str:
    """The name, with a number where two ways of asking have the prompt in common."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _ways(name: str, experiments: Experiments, runs: Mapping[str, Mapping[str, Values]]) -> list[Values]:
    """The different ways in which runs of an experiment are asked; none where answers do not judge them.

    An inherited key has one of the values of the experiment that decides it.
    """
    experiment = experiments[name]
    if not issubclass(STAGES[experiment.stage], Sampled):
        return []
    inherited = {
        key: list({str(values[key]): values[key] for values in runs[source].values()}.values())
        for key, source in experiment.inherit.items()
        if key in ASKED
    }
    found: dict[tuple[Any, ...], Values] = {}
    for values, chosen in product(runs[name].values(), product(*inherited.values())):
        asked = {key: values[key] for key in ASKED if key in values} | dict(zip(inherited, chosen, strict=True))
        try:
            Evaluation(dataset="", **asked)
        except ValidationError:  # a prompt of one run with the reward of another
            continue
        found.setdefault(_told(asked), asked)
    return list(found.values())


def _told(way: Values) -> tuple[str, ...]:
    return tuple(str(way[key]) for key in SAME)


def _asks_the_same(given: Evaluation, wanted: Evaluation) -> bool:
    keys = (*SAME, "dataset", "model", "num_examples", "group_size")
    return all(getattr(given, key) == getattr(wanted, key) for key in keys)


# ---------------------------------------------------------------- faults


def faults(
    test: HeldOut | None, data: Datasets, given: Evaluations, runs: Mapping[str, Mapping[str, Values]]
) -> Iterator[str]:
    """Of the section itself, and of every other use of its questions."""
    if test is None:
        return
    name, key = test.dataset, "test.dataset"
    if name not in data:
        yield from datasets.unknown(key, name, data)
        return
    yield from datasets.other_rows(key, name, "questions", data)
    if isinstance(data[name], (Curated, PassRate)):
        yield f"{key}: {name} is made from another dataset; name one of questions that nothing else has"
    alike = {other for other, source in data.items() if origin(source) == origin(data[name])}
    for other, source in data.items():
        if isinstance(source, Curated) and source.dataset in alike:
            yield f"data.{other}.dataset: {source.dataset} is the test set, which nothing may be made from"
        elif isinstance(source, PassRate) and source.evaluation in given and given[source.evaluation].dataset in alike:
            yield f"data.{other}.evaluation: {source.evaluation} asks the test set, which may choose nothing"
    for experiment, found in runs.items():
        for role in DATASET_KEYS:
            for other in sorted({values[role] for values in found.values()} & alike):
                same = "" if other == name else f" has the questions of {name}, which"
                yield f"experiments.{experiment}: {role} {other}{same} is the test set; name one that is for {role}"


def origin(source: Any) -> dict[str, Any]:
    """What decides which questions a dataset may hold: not how many of them, nor what is read beside them."""
    kept = source.model_dump(exclude=BESIDE, exclude_none=True)
    return kept | {"source": kept["source"].removesuffix("_instructions").removesuffix("_preferences")}


def reading_faults(planned: Plan, given: Evaluations, data: Datasets) -> Iterator[str]:
    """Answers that a reward cannot read, and names that are taken."""
    for name, (evaluation, _) in planned.items():
        yield from datasets.other_reward("test.dataset", evaluation.dataset, evaluation.reward, data)
        if name in given and given[name] is not evaluation:
            yield f"evaluations.{name}: the section test plans an evaluation of this name; choose another"
