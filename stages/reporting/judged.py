"""What judges decided, and what single parts of a benchmark come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stages.examples import drawn
from stages.judging.verdicts import MEASURES
from stages.reporting import statistics, wording
from stages.tasks.mmlu_answers import subject_of

Row = Mapping[str, Any]
Table = tuple[list[str], list[list[Any]]]
Parts = dict[str, dict[str, list[float]]]  # part -> question -> whether each response is good
EXAMPLES = {"response": 2, "baseline": 10, "safe": 2, "unsafe": 10, "unparsed": 5}  # shown of each verdict
LEGEND = (
    "Win rate: each response meets the baseline's twice, once in either order, and each verdict counts half. In both "
    "orders: how often the two verdicts name the same response; a judge that always names the first one never does. "
    "Intervals are of 95 % (Wilson), over responses whose verdicts can all be read. Lengths are mean characters: "
    "judges tend to prefer the longer response."
)


@dataclass(frozen=True)
class Judged:
    """One judge on one evaluation: its JUDGED row and its JUDGEMENTS rows."""

    judge: str
    metrics: Row
    rows: Sequence[Row]
    hardware: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        return MEASURES[self.metrics["prompt"]]

    @property
    def sentence(self) -> str:
        one = self.metrics
        if one["score"] is None:
            return f"{self.judge}: none of {one['num_verdicts']} verdicts could be read."
        interval = f"95 % interval {wording.percent(one['low'])} to {wording.percent(one['high'])}"
        return (
            f"{self.judge}: {self.measure} {wording.percent(one['score'])} ({interval}) of the {one['num_decided']} of "
            f"{one['num_examples']} responses that it decided about; {wording.percent(one['unparsed'])} of "
            f"{one['num_verdicts']} verdicts could not be read."
        )

    @property
    def examples(self) -> list[Row]:
        """A few verdicts of each kind, drawn at random, the unfavourable ones foremost: those have to be read."""
        kinds = ("baseline", "unsafe", "unparsed", "response", "safe")
        return [row for kind in kinds for row in drawn(self._of(kind), EXAMPLES[kind])]

    def _of(self, verdict: str) -> list[Row]:
        return [row for row in self.rows if row["verdict"] == verdict]

    @property
    def categories(self) -> Table | None:
        """Share safe in each part of the benchmark; None where it has no parts."""
        found: Parts = defaultdict(lambda: defaultdict(list))
        for row in self.rows:
            if row["category"] is not None and row["verdict"] != "unparsed":
                found[row["category"]][row["example_id"]].append(row["verdict"] == "safe")
        return shares("harm area", "share safe", found) if found else None


def shares(part: str, measure: str, found: Parts) -> Table:
    """One row for each part, by name; then all together."""
    everything = {(name, question): said for name, part in found.items() for question, said in part.items()}
    rows = [[name, *_share(found[name])] for name in sorted(found)]
    return [part, measure, "95 % interval", "responses"], [*rows, ["all", *_share(everything)]]


def _share(questions: Mapping[Any, Sequence[float]]) -> list[Any]:
    good, total = statistics.total(questions)
    low, high = statistics.of_questions(questions)
    return [wording.fixed(good / total), f"{wording.fixed(low)} to {wording.fixed(high)}", total]


def subjects(rows: Iterable[Row]) -> Table | None:
    """Accuracy in each subject of MMLU; None for rows of anything else."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        subject = subject_of(row["ground_truth"])
        if subject is not None:
            found[subject].append(row)
    parts = {name: statistics.by_question(own) for name, own in found.items()}
    return shares("subject", "accuracy", parts) if parts else None


def table(judged: Iterable[tuple[str, str, Judged]]) -> Table:
    """One row for each (evaluation, policy, judgement)."""
    header = ["evaluation", "policy", "judge", "measure", "score", "95 % interval", "decided", "in both orders"]
    header += ["unparsed", "length", "baseline's length"]
    return header, [_row(name, policy, one.judge, one.measure, one.metrics) for name, policy, one in judged]


def _row(name: str, policy: str, judge: str, measure: str, one: Row) -> list[Any]:
    return [
        *(name, policy, judge, measure, wording.fixed(one["score"])),
        f"{wording.fixed(one['low'])} to {wording.fixed(one['high'])}",
        f"{one['num_decided']} of {one['num_examples']}",
        *(wording.fixed(one["agreement"]), wording.fixed(one["unparsed"])),
        *(wording.fixed(one[column], 0) for column in ("length", "baseline_length")),
    ]
