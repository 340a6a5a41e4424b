"""What a report shows, read from the results: evaluations, experiments, and the facts around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from stages.reporting import buckets as bucketing
from stages.reporting import (
    entropy,
    hours,
    judged,
    ladder,
    leaderboard,
    overlap,
    rounds,
    speed,
    statistics,
    tested,
    transcripts,
    wording,
)
from stages.reporting import readings as reading
from stages.reporting.choice import Choice
from stages.reporting.judged import Judged
from stages.reporting.ladder import Rung
from stages.reporting.measures import ANSWERS, Measure
from stages.reporting.overlap import Overlap
from stages.reporting.references import Reference
from stages.reporting.runs import Configuration, Run
from stages.reporting.tested import BeforeAndAfter, Tested


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: its settings, its METRICS row, its ROLLOUTS rows, graded or for a judge, and what judges say."""

    name: str
    values: Mapping[str, Any]
    metrics: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    hardware: Mapping[str, Any] = field(default_factory=dict)
    judgements: Sequence[Judged] = ()

    @property
    def reward(self) -> str:
        return self.values.get("reward", "")

    @property
    def graded(self) -> bool:
        return self.reward != "none"

    @property
    def subjects(self) -> judged.Table | None:
        return judged.subjects(self.rows)

    @property
    def buckets(self) -> list[bucketing.Bucket]:
        return bucketing.buckets(self.rows) if self.graded else []

    @property
    def symptoms(self) -> list[tuple[str, int]]:
        return bucketing.symptoms(self.rows, self.reward) if self.graded else []

    @property
    def sentence(self) -> str:
        if not self.graded:
            length = wording.fixed(self.metrics["length"], 0)
            told = " ".join(one.sentence for one in self.judgements) or "No judge has decided about them."
            return f"{len(self.rows)} responses of {length} tokens on average, which no rule grades. {told}"
        found = sum(row["verdict"] in ("correct", "wrong") for row in self.rows)
        return (
            f"{wording.counted(statistics.by_question(self.rows))} responses are right; in {found} an answer could be "
            f"found ({wording.percent(found / max(1, len(self.rows)))})."
        )


@dataclass(frozen=True)
class Experiment:
    """One experiment: its configurations and which is passed on, what they are shown beside, its figures, transcripts
    of the winner's first run.

    `leaderboard_svg` is empty where its runs have no wall-clock budget.
    """

    name: str
    stage: str
    description: str
    choice: Choice
    references: Sequence[Reference] = ()
    svg: str = ""
    leaderboard_svg: str = ""
    board: Mapping[str, Any] = field(default_factory=dict)  # what the rules of a board ask about, see board.py
    stories: transcripts.Stories | None = None

    @property
    def order(self) -> Sequence[Configuration]:
        """The configuration that is passed on, then the others, best first."""
        return self.choice.order

    @property
    def outcome(self) -> str:
        return wording.outcome(self.choice)

    @property
    def measure(self) -> Measure:
        return self.order[0].measure

    @property
    def readings(self) -> list[str]:
        return reading.readings(self.order, self.references)

    @property
    def account(self) -> hours.Account:
        return hours.total(hours.of_job(run.seconds, run.hardware) for one in self.order for run in one.runs)

    @property
    def spent(self) -> str:
        return hours.sentence(self.account)

    @property
    def has_rounds(self) -> bool:
        return rounds.has_rounds(self.order)

    @property
    def leaderboard(self) -> leaderboard.Entry | None:
        return leaderboard.entry(self.name, self.description, self.order, self.board)


@dataclass(frozen=True)
class Report:
    """Everything on the page. Absent parts are empty; the page leaves their sections out."""

    preset: str
    model: Mapping[str, Any]
    data: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, int]
    evaluations: Sequence[Evaluated]
    experiments: Sequence[Experiment]
    spending: Sequence[entropy.Trajectory]
    spending_svg: str
    pretraining_svg: str
    pretraining_seconds: float
    provenance: Mapping[str, Mapping[str, Any]]
    logs: Mapping[str, str] = field(default_factory=dict)
    tests: Mapping[str, Sequence[str]] = field(default_factory=dict)  # evaluation -> experiments that it is for
    overlaps: Sequence[Overlap] = ()
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # dataset -> reason -> unusable rows

    @property
    def leaks(self) -> list[str]:
        """What a reader of a score must know of the questions that it is of."""
        return overlap.warnings(self.overlaps)

    @property
    def about_data(self) -> list[str]:
        """What the table of datasets does not show: rows that could not be used, questions that two of them share."""
        lacking = [
            f"Left out of {name}, as rows that cannot be used: "
            + ", ".join(f"{count} ({reason})" for reason, count in reasons.items())
            for name, reasons in self.left_out.items()
            if reasons
        ]
        return lacking + overlap.sentences(self.overlaps)

    @cached_property
    def tested(self) -> dict[str, Tested]:
        """Experiment -> its winner on the test set; empty without one."""
        found = tested.tested(self.tests, [one for one in self.evaluations if one.graded], self.experiments)
        return {one.experiment: one for one in found}

    @property
    def headline(self) -> str:
        return tested.headline(list(self.tested.values())) or ladder.headline(self.rungs)

    @cached_property
    def beside_the_base(self) -> dict[str, BeforeAndAfter]:
        """Evaluation of a trained policy -> the same questions before training, where they were asked."""
        found = {one.name: tested.before_and_after(one, self.evaluations) for one in self.evaluations}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def rungs(self) -> list[Rung]:
        """The base policy, what experiments made of it, then evaluations of their winners: on the test set where there
        is one."""
        graded = [one for one in self.evaluations if one.graded]
        if found := self.tested:
            return tested.rungs(list(found.values()), self.tests, graded)
        ends = {one.name: ladder.end(one.order[0]) for one in self.experiments}
        measured = {
            one.name: replace(tested.rung_of(one), note=ends.get(one.values.get("model", ""), "")) for one in graded
        }
        of_base = [one.name for one in graded if one.values.get("model", "base") == "base"]
        answering = [one for one in self.experiments if one.measure == ANSWERS]
        return [
            *(measured[name] for name in of_base),
            *(rung for one in answering for rung in ladder.rungs_of(one.name, one.stage, one.order)),
            *(rung for name, rung in measured.items() if name not in of_base),
        ]

    @property
    def speeds(self) -> Mapping[str, str]:
        """Evaluation -> how fast it sampled, in a sentence; "" where it does not say."""
        return speed.sentences(self.evaluations)

    @property
    def judged(self) -> list[tuple[str, str, Judged]]:
        """(evaluation, policy, judgement) of everything that judges decided."""
        policies = {one.name: one.values.get("model", "base") for one in self.evaluations}
        return [(one.name, policies[one.name], told) for one in self.evaluations for told in one.judgements]

    @property
    def legends(self) -> list[str]:
        """What the tables' columns mean, for each measure that an experiment is judged by."""
        return list(dict.fromkeys(one.measure.legend for one in self.experiments))

    @property
    def runs(self) -> list[Run]:
        return [run for one in self.experiments for configuration in one.order for run in configuration.runs]

    @property
    def accounts(self) -> dict[str, hours.Account]:
        """What each part of the ladder took. Seconds are those of all jobs, as if they had run one after the other."""
        base = self.provenance.get("base model")
        found = {"base policy": hours.of_job(self.pretraining_seconds, base)} if base is not None else {}
        found |= {one.name: hours.of_job(one.metrics.get("seconds") or 0.0, one.hardware) for one in self.evaluations}
        for name, _, told in self.judged:
            found[f"{told.judge} on {name}"] = hours.of_job(told.metrics["seconds"], told.hardware)
        return found | {one.name: one.account for one in self.experiments}

    @property
    def account(self) -> hours.Account:
        return hours.total(self.accounts.values())

    @property
    def commits(self) -> list[str]:
        return sorted({str(facts.get("commit") or "unknown") for facts in self.provenance.values()})

    @property
    def versions(self) -> dict[str, str]:
        """Package -> version, all of them where files were made with different ones."""
        found: dict[str, set[str]] = {}
        for facts in self.provenance.values():
            for name, version in (facts.get("versions") or {}).items():
                found.setdefault(name, set()).add(version)
        return {name: " / ".join(sorted(versions)) for name, versions in sorted(found.items())}


def model_words(model: Mapping[str, Any]) -> str:
    """`pretrained here (hidden_size 128, num_layers 4, …)`, a shipped one, a folder, or a hub id and its revision."""
    if model.get("pretrain") is not None:
        shape = [key for key in ("hidden_size", "num_layers", "num_heads", "vocab_size") if key in model["pretrain"]]
        named = ", ".join(f"{key} {wording.number(model['pretrain'][key])}" for key in shape)
        return f"pretrained here ({named or 'default shape'})"
    if model.get("shipped") is not None:
        return f"{model['shipped']}, which comes with the project"
    revision = f" at {model['revision']}" if model.get("revision") else ""
    return f"{model.get('hub') or model.get('path') or 'unknown'}{revision}"


def settings(values: Mapping[str, Any], leave_out: Sequence[str] = ()) -> str:
    shown = {key: value for key, value in values.items() if key not in leave_out and value is not None}
    return ", ".join(f"{key} {wording.number(value)}" for key, value in shown.items())


def status_words(report: Report) -> str:
    """`12 runs: 11 finished, 1 diverged`"""
    counts: dict[str, int] = {}
    for run in report.runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    ordered = sorted(counts.items(), key=lambda pair: (pair[0] != "finished", pair[0]))
    return (
        f"{len(report.runs)} runs: " + ", ".join(f"{count} {status}" for status, count in ordered) if counts else "none"
    )


def tells(report: Report) -> dict[str, str]:
    """The headline: what ran, on what, from which code, for how long."""
    data = [f"{name} ({report.sizes[name]})" if name in report.sizes else name for name in report.data]
    return {
        "Policy": model_words(report.model),
        "Data (examples)": ", ".join(data) or "none",
        "Evaluations": ", ".join(one.name for one in report.evaluations) or "none",
        "Training": status_words(report),
        "Time, all jobs added up": wording.duration(report.account.seconds),
        "Spent": hours.words(report.account),
        "Commit": ", ".join(report.commits) or "unknown",
    }


def ladder_table(rungs: Sequence[Rung]) -> tuple[list[str], list[list[Any]]]:
    header = [
        "policy",
        "answer reward",
        "95 % interval",
        "format reward",
        "kind",
        "prompt",
        "dataset",
        "questions",
        "note",
    ]
    rows = [
        [
            *(rung.name, wording.fixed(rung.answer_reward), f"{wording.fixed(rung.low)} to {wording.fixed(rung.high)}"),
            *(wording.fixed(rung.format_reward), rung.kind, rung.prompt, rung.dataset, rung.questions, rung.note),
        ]
        for rung in rungs
    ]
    return header, rows


def data_table(report: Report) -> tuple[list[str], list[list[Any]]]:
    rows = [
        [name, source.get("source", ""), report.sizes.get(name, "–"), settings(source, ("source",))]
        for name, source in report.data.items()
    ]
    return ["dataset", "source", "examples", "settings"], rows


def provenance_table(report: Report) -> tuple[list[str], list[list[Any]]]:
    rows = [
        [name, *(facts.get(key) or "–" for key in ("spec_hash", "code", "commit", "job")), report.logs.get(name, "–")]
        for name, facts in report.provenance.items()
    ]
    return ["output", "specification", "code", "commit", "Slurm job", "log"], rows
