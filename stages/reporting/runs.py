"""Training runs as the report sees them, and which configuration of an experiment won."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stages import records
from stages.records import METRICS, ROLLOUTS, DataError
from stages.reporting.measures import ANSWERS, Measure, measure_of

FINAL_ROWS = 3


@dataclass(frozen=True)
class Run:
    """One finished or stopped training run; rows are METRICS rows as dictionaries, in step order."""

    path: str
    values: Mapping[str, Any]
    status: str = "finished"
    reason: str = ""
    steps: int = 0
    seconds: float = 0.0
    hardware: Mapping[str, Any] = field(default_factory=dict)  # gpus and cores, where the run says so
    train: tuple[dict[str, Any], ...] = ()
    validation: tuple[dict[str, Any], ...] = ()
    rounds: tuple[dict[str, Any], ...] = ()  # of expert iteration: what each sampled, kept and reached
    folder: Path | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    measure: Measure = ANSWERS
    answers: Mapping[str, float] = field(default_factory=dict)  # question -> share right in its score's validations
    answered: int = 1  # how many validations these are

    @property
    def seed(self) -> Any:
        return self.values.get("seed")

    @property
    def validated(self) -> tuple[dict[str, Any], ...]:
        """The validations of the policy in training, of a run with a budget of seconds those that ended within it; that
        from before the first step only where it is all there is."""
        limit = self.values.get("max_seconds") or math.inf
        trained = tuple(row for row in self.validation if row["step"])
        return tuple(row for row in trained if row.get("seconds", 0.0) <= limit) or trained or self.validation

    @property
    def score(self) -> float | None:
        return SCORES[self.measure.read](self, self.measure)

    @property
    def start(self) -> float | None:
        """What it is judged by, before the first optimiser step; None if that was not measured."""
        return self.validation[0][self.measure.column] if self.validation and self.validation[0]["step"] == 0 else None


@dataclass(frozen=True)
class Configuration:
    """The runs of an experiment that differ in their seed alone; `values` holds the swept keys only."""

    values: Mapping[str, Any]
    runs: tuple[Run, ...]

    @property
    def scores(self) -> list[float]:
        """What each run is judged by. One that stopped before it ever validated has shown nothing and counts as the
        worst, so that losing a seed never helps a configuration."""
        return [self.measure.worst if run.score is None else run.score for run in self.runs]

    @property
    def measure(self) -> Measure:
        return self.runs[0].measure

    @property
    def score(self) -> float:
        return mean(self.scores)

    @property
    def finished(self) -> bool:
        return all(run.status == "finished" for run in self.runs)

    @property
    def path(self) -> str:
        return self.runs[0].path


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def column(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The measured values of one column: neither null nor, as in the last step of a run that broke, NaN or infinite."""
    return [row[name] for row in rows if measured(row.get(name))]


def measured(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def final(rows: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Mean of the last three values of a column: less noise than the last one alone. None where there are none."""
    values = column(rows, name)[-FINAL_ROWS:]
    return mean(values) if values else None


def best_row(rows: Iterable[Mapping[str, Any]], measure: Measure) -> Mapping[str, Any]:
    """The validation that was best, the earliest of several; empty where nothing was measured."""
    found = [row for row in rows if measured(row.get(measure.column))]
    return max(found, key=lambda row: (measure.ahead(row[measure.column], 0.0), -row["step"]), default={})


SCORES = {
    "last three": lambda run, measure: final(run.validated, measure.column),
    "last": lambda run, measure: (column(run.validated, measure.column) or [None])[-1],
    "best": lambda run, measure: best_row(run.validation, measure).get(measure.column),
}


def swept_keys(experiment: Mapping[str, Any]) -> list[str]:
    """The keys an experiment varies, in a stable order; the seed is a repetition, not a choice."""
    keys = set(experiment.get("grid") or {}).union(experiment.get("tune") or {}, *(experiment.get("cases") or []))
    return sorted(keys - {"seed"})


def configurations(runs: Iterable[Run], experiment: Mapping[str, Any]) -> list[Configuration]:
    """Runs grouped by their swept values, in the order of their paths, seeds ascending."""
    keys = swept_keys(experiment)
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.path):
        groups.setdefault(json.dumps([run.values.get(key) for key in keys]), []).append(run)
    return [
        Configuration(
            values={key: group[0].values.get(key) for key in keys},
            runs=tuple(sorted(group, key=lambda run: (run.seed is None, run.seed or 0, run.path))),
        )
        for group in groups.values()
    ]


def ranked(found: Iterable[Configuration]) -> list[Configuration]:
    """Best first by the mean over seeds of what the stage is judged by, ties to the smaller path.

    A configuration with a run that did not finish stands behind all that did: its score is what it reached before it
    broke, and fixing its values for later experiments would break those too. It can win only where nothing finished.
    Scores are compared to 12 decimals, so that the order of a floating-point sum decides no tie.
    """
    return sorted(found, key=lambda one: (not one.finished, -round(one.measure.ahead(one.score, 0.0), 12), one.path))


def by_value(found: Iterable[Configuration]) -> list[Configuration]:
    """In the order of the swept values, numbers by size and before everything else: an order that no result changes."""
    return sorted(found, key=lambda one: ([_sortable(value) for value in one.values.values()], one.path))


def _sortable(value: Any) -> tuple[bool, float, str]:
    numeric = isinstance(value, (int, float))
    return not numeric, float(value) if numeric else 0.0, str(value)


def read_run(folder: Path, path: str, values: Mapping[str, Any] | None = None) -> Run:
    """The run in `folder`. Values that the stage resolved (status.json) go before the planned ones."""
    folder = Path(folder)
    status = _read_json(folder / "status.json")
    metrics = records.read_table(folder / "metrics.parquet", METRICS)
    rows = sorted(metrics.to_pylist(), key=lambda row: row["step"])
    provenance = records.provenance_of(folder / "metrics.parquet")
    run = Run(
        path=path,
        values={**(values or {}), **status.get("values", {})},
        status=status.get("status", "unknown"),
        reason=status.get("reason") or "",
        steps=status.get("steps") or 0,
        seconds=status.get("seconds") or 0.0,
        hardware={key: status[key] for key in ("gpus", "cores") if key in status},
        train=tuple(row for row in rows if row["kind"] == "train"),
        validation=tuple(row for row in rows if row["kind"] == "validation"),
        rounds=tuple(status.get("rounds") or ()),
        folder=folder,
        provenance=provenance,
        measure=measure_of(provenance.get("spec", {}).get("stage")),
    )
    steps = scored(run)
    return replace(run, answers=read_answers(folder / "generations.parquet", steps), answered=len(steps))


def scored(run: Run) -> list[int]:
    """The steps of the validations that a score of answers is the mean of; none of other measures."""
    rows = [row for row in run.validated if measured(row.get(run.measure.column))]
    return [row["step"] for row in rows[-FINAL_ROWS:]] if run.measure == ANSWERS else []


def read_answers(path: Path, steps: Sequence[int]) -> dict[str, float]:
    """Question -> share of right responses over these steps, of a file of ROLLOUTS; empty unless each question was
    answered as often as every other, at each of the steps."""
    if not steps:
        return {}
    columns = pa.schema([ROLLOUTS.field(name) for name in ("example_id", "step", "answer_reward")])
    rows = records.read_table(path, columns)
    rows = rows.filter(pc.is_in(rows["step"], pa.array(steps, columns.field("step").type)))
    told = [("answer_reward", "mean"), ("answer_reward", "count"), ("step", "count_distinct"), ("step", "count")]
    found = rows.group_by("example_id").aggregate(told).sort_by("example_id").to_pydict()
    alike = len({*found["answer_reward_count"], *found["step_count"]}) == 1  # and no answer is ungraded
    if not alike or set(found["step_count_distinct"]) != {len(steps)}:
        return {}
    return dict(zip(found["example_id"], found["answer_reward_mean"], strict=True))


def read_runs(planned: Mapping[str, Mapping[str, Any]], folders: Iterable[Path]) -> list[Run]:
    """One run per planned path; each folder is known by ending in its path."""
    found: dict[str, Path] = {}
    for folder in map(Path, folders):
        fitting = [path for path in planned if folder.parts[-len(Path(path).parts) :] == Path(path).parts]
        if not fitting:
            raise DataError(f"{folder}: is no run of the specification; give the folders of its runs alone")
        found[max(fitting, key=len)] = folder
    missing = sorted(planned.keys() - found.keys())
    if missing:
        raise DataError(f"no folder given for run {missing[0]} ({len(missing)} missing); give each run's folder")
    return [read_run(found[path], path, values) for path, values in sorted(planned.items())]


def read_planned(planned: Mapping[str, str]) -> list[Run]:
    """The runs of a specification that says where each lies: run path -> folder."""
    return [read_run(Path(folder), path) for path, folder in planned.items()]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; the run has not finished, start it again") from None
    except (IsADirectoryError, ValueError) as error:
        raise DataError(f"{path}: not JSON ({error}); delete it and run again") from None
