"""Put the whole ladder on one HTML page that opens offline, and in one Markdown file.

python -m stages.report --spec results/report.spec.json --html results/report.html --markdown results/report.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stages import records
from stages.console import run, say
from stages.records import JUDGED, JUDGEMENTS, METRICS, DataError
from stages.reporting import canvas, curves, entropy, ladder, overlap, page, transcripts
from stages.reporting.choice import choose
from stages.reporting.contents import Evaluated, Experiment, Report
from stages.reporting.judged import Judged
from stages.reporting.markdown import report as as_markdown
from stages.reporting.references import read_references
from stages.reporting.runs import configurations, read_planned
from stages.store import write_text
from stages.strict import read_spec

ELSEWHERE = ("rollouts", "graded", "metrics", "judgements")  # entries of an evaluation that are no settings of it


def read_evaluation(name: str, values: Mapping[str, Any]) -> Evaluated:
    metrics = records.read_table(Path(values["metrics"]), METRICS).to_pylist()
    if len(metrics) != 1:
        raise DataError(f"{values['metrics']}: {len(metrics)} rows, one expected; delete it and run again")
    settings = {key: value for key, value in values.items() if key not in ELSEWHERE}
    rows = transcripts.read_rollouts(Path(values["graded"]))
    judgements = [read_judgement(judge, Path(folder)) for judge, folder in values.get("judgements", {}).items()]
    return Evaluated(name, settings, metrics[0], rows, hardware(Path(values["metrics"])), judgements)


def read_judgement(judge: str, folder: Path) -> Judged:
    (metrics,) = records.read_table(folder / "metrics.parquet", JUDGED).to_pylist()
    rows = records.read_table(folder / "verdicts.parquet", JUDGEMENTS).to_pylist()
    return Judged(judge, metrics, rows, hardware(folder / "metrics.parquet"))


def hardware(path: Path) -> dict[str, Any]:
    """What a job says it ran on; empty where it does not."""
    told = records.provenance_of(path)
    return {key: told[key] for key in ("gpus", "cores") if key in told}


def read_experiment(name: str, config: Mapping[str, Any]) -> Experiment:
    choice = choose(configurations(read_planned(config["runs"]), config), config)
    rollouts = transcripts.read_rollouts(choice.winner.runs[0].folder / "generations.parquet")
    summary = Path(config["summary"])
    board = summary / "leaderboard.svg"  # there where the experiment has a budget
    return Experiment(
        name=name,
        stage=config["stage"],
        description=config.get("description") or "",
        choice=choice,
        references=read_references(config.get("references", {})),
        svg=canvas.inline((summary / "curves.svg").read_text(encoding="utf-8"), name),
        leaderboard_svg=canvas.inline(board.read_text(encoding="utf-8"), f"{name}-board") if board.is_file() else "",
        board=config.get("board") or {},
        stories=transcripts.stories(rollouts),
    )


def provenance(spec: Mapping[str, Any], experiments: list[Experiment]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Output -> what it recorded about its making, for the base policy, every evaluation and every run."""
    if spec.get("base_metrics"):
        yield "base model", records.provenance_of(Path(spec["base_metrics"]))
    for name, values in spec.get("evaluations", {}).items():
        yield f"evaluation {name}", records.provenance_of(Path(values["graded"]))
        for judge, folder in values.get("judgements", {}).items():
            yield f"judgement {judge}/{name}", records.provenance_of(Path(folder) / "metrics.parquet")
    for experiment in experiments:
        for configuration in experiment.order:
            for one in configuration.runs:
                yield f"{experiment.name}/{one.path}", dict(one.provenance)


def collect(spec: Mapping[str, Any]) -> Report:
    """Read everything that the specification names; absent sections stay empty."""
    base = records.read_table(Path(spec["base_metrics"]), METRICS).to_pylist() if spec.get("base_metrics") else []
    configured = spec.get("experiments", {})
    experiments = [read_experiment(name, configured[name]) for name in ladder.in_order(configured)]
    files = spec.get("examples", {})
    spending = [found for one in experiments if (found := entropy.trajectory(one.name, one.stage, one.order[0]))]
    spending = spending if len(spending) > 1 else []
    return Report(
        preset=spec["preset"],
        model=spec["model"],
        data=spec.get("data", {}),
        sizes={name: records.count_rows(Path(file)) for name, file in files.items()},
        evaluations=[read_evaluation(name, values) for name, values in spec.get("evaluations", {}).items()],
        experiments=experiments,
        spending=spending,
        spending_svg=inlined(entropy.figure(spending), "spending") if spending else "",
        pretraining_svg=inlined(curves.pretraining_figure(base), "base") if base else "",
        pretraining_seconds=max((row["seconds"] for row in base), default=0.0),
        provenance=dict(provenance(spec, experiments)),
        logs=spec.get("logs", {}),
        tests=spec.get("tests", {}),
        overlaps=overlap.overlaps(spec.get("roles", {}), files),
        left_out={name: records.provenance_of(Path(file)).get("left_out", {}) for name, file in files.items()},
    )


def inlined(figure: Any, prefix: str) -> str:
    return canvas.inline(canvas.to_svg(figure), prefix)


def report(
    spec: Annotated[Path, typer.Option(help="Specification: paths of everything the report shows.")],
    html: Annotated[Path, typer.Option(help="Page to write.")],
    markdown: Annotated[Path, typer.Option(help="Markdown file to write.")],
) -> None:
    """Write the report of all evaluations and experiments."""
    found = collect(read_spec(spec))
    text = page.html(found)
    write_text(html, text)
    write_text(markdown, as_markdown(found))
    say(f"{html}: {len(text.encode()) / 1e6:.1f} MB")


if __name__ == "__main__":
    run(lambda: typer.run(report))
