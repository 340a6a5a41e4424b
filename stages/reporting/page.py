"""The report: what was read from the results, arranged for one HTML page and one Markdown file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from stages.reporting import buckets as bucketing
from stages.reporting import ladder, tables, transcripts, wording
from stages.reporting.ladder import Rung
from stages.reporting.runs import Configuration

FOLDER = Path(__file__).with_suffix("")  # page/: template, style and script belong to this module alone
GLYPHS = {"correct": "✓", "wrong": "✗", "unformatted": "∅"}


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: its settings, its METRICS row and its graded ROLLOUTS rows."""

    name: str
    values: Mapping[str, Any]
    metrics: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @property
    def buckets(self) -> list[bucketing.Bucket]:
        return bucketing.buckets(self.rows)

    @property
    def symptoms(self) -> list[tuple[str, int]]:
        return bucketing.symptoms(self.rows)

    @property
    def sentence(self) -> str:
        right = sum(row["verdict"] == "correct" for row in self.rows)
        found = sum(row["verdict"] in ("correct", "wrong") for row in self.rows)
        return (
            f"{wording.counted(right, len(self.rows))} responses are right; in {found} an answer could be found "
            f"({wording.percent(found / max(1, len(self.rows)))})."
        )


@dataclass(frozen=True)
class Experiment:
    """One experiment: its ranked configurations, its figure, and transcripts of its best run."""

    name: str
    stage: str
    description: str
    order: Sequence[Configuration]
    svg: str
    stories: transcripts.Stories | None

    @property
    def outcome(self) -> str:
        return wording.outcome(self.order)


@dataclass(frozen=True)
class Report:
    """Everything on the page. Absent parts are empty; the page leaves their sections out."""

    preset: str
    model: Mapping[str, Any]
    data: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, int]
    evaluations: Sequence[Evaluated]
    experiments: Sequence[Experiment]
    pretraining_svg: str
    pretraining_seconds: float
    provenance: Mapping[str, Mapping[str, Any]]

    @property
    def rungs(self) -> list[Rung]:
        rungs = [ladder.from_evaluation(one.name, one.values, one.metrics) for one in self.evaluations]
        return rungs + [rung for one in self.experiments for rung in ladder.rungs_of(one.name, one.stage, one.order)]

    @property
    def runs(self) -> list[Any]:
        return [run for one in self.experiments for configuration in one.order for run in configuration.runs]

    @property
    def seconds(self) -> float:
        """Wall-clock of all jobs added up, as if they had run one after the other."""
        evaluated = sum(one.metrics.get("seconds") or 0.0 for one in self.evaluations)
        return self.pretraining_seconds + evaluated + sum(run.seconds for run in self.runs)

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
    """`pretrained here: hidden_size 128, num_layers 4, …`, a folder, or a hub id with its revision."""
    if model.get("pretrain") is not None:
        shape = [key for key in ("hidden_size", "num_layers", "num_heads", "vocab_size") if key in model["pretrain"]]
        named = ", ".join(f"{key} {wording.number(model['pretrain'][key])}" for key in shape)
        return f"pretrained here ({named or 'default shape'})"
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
        "Time, all jobs added up": wording.duration(report.seconds),
        "Commit": ", ".join(report.commits) or "unknown",
    }


def transcript(text: str) -> Markup:
    """Untrusted text as HTML: escaped first, then the tags of the prompt format and the signs of `visible` coloured."""
    escaped = str(escape(transcripts.visible(text)))
    tagged = re.sub(r"&lt;/?(?:think|answer)&gt;", lambda tag: f'<span class="tag">{tag[0]}</span>', escaped)
    return Markup(re.sub(r"[↵⇥]|·+(?=↵|$)", lambda sign: f'<span class="mark">{sign[0]}</span>', tagged))


def html(report: Report) -> str:
    """One self-contained page. Everything that is not markup of ours goes through autoescape."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": wording.percent,
        "fixed": wording.fixed,
        "visible": transcripts.visible,
        "shorten": transcripts.shorten,
        "transcript": transcript,
        "facts": transcripts.facts,
        "answer": bucketing.answer_text,
        "symptom": bucketing.symptom,
        "glyph": lambda verdict: GLYPHS.get(verdict, "?"),
        "settings": settings,
        "svg": Markup,
    }
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    return environment.get_template("page.html.j2").render(
        report=report,
        tells=tells(report),
        headline=ladder.headline(report.rungs),
        remarks=ladder.remarks(report.rungs),
        fates=transcripts.FATES,
        tables=tables,
        data_table=data_table(report),
        provenance_table=provenance_table(report),
        css=Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def markdown(report: Report) -> str:
    """The same report as text: facts, tables and sentences; transcripts are left to the page and transcripts.md."""
    parts = [f"# Ladder report: {tables.cell(report.preset)}"]
    parts += [tables.cell(ladder.headline(report.rungs))]
    parts += ["\n".join(f"- {key}: {tables.cell(value)}" for key, value in tells(report).items())]
    if report.rungs:
        parts += ["## The ladder", tables.write_markdown(*ladder_table(report.rungs))]
        parts += [tables.cell(said) for said in ladder.remarks(report.rungs)]
    for one in report.evaluations:
        rows = [[bucket.name, bucket.meaning, bucket.count, wording.percent(bucket.share)] for bucket in one.buckets]
        parts += [f"## Evaluation: {one.name}", one.sentence]
        parts += [tables.write_markdown(["bucket", "meaning", "responses", "share"], rows)]
        if one.symptoms:
            parts += [tables.write_markdown(["why no answer was found", "responses"], one.symptoms)]
    for one in report.experiments:
        parts.append(tables.experiment_markdown(f"Experiment {one.name}", one.description, one.order, level=2))
    if report.data:
        parts += ["## Data", tables.write_markdown(*data_table(report))]
    parts += ["## Provenance", tables.write_markdown(*provenance_table(report))]
    parts += [", ".join(f"{name} {version}" for name, version in report.versions.items())]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


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
        [name, facts.get("spec_hash") or "–", facts.get("code") or "–", facts.get("commit") or "–"]
        for name, facts in report.provenance.items()
    ]
    return ["output", "specification", "code", "commit"], rows
