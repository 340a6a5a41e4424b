"""Put the whole ladder on one HTML page that opens offline, and in one Markdown file.

python -m stages.report --spec results/report.spec.json --html results/report.html --markdown results/report.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stages import records
from stages.config import read_spec
from stages.console import run, say
from stages.records import EXAMPLES, METRICS, DataError
from stages.reporting import curves, ladder, page, transcripts
from stages.reporting.runs import configurations, ranked, read_run
from stages.store import write_text


def read_evaluation(name: str, values: Mapping[str, Any]) -> page.Evaluated:
    metrics = records.read_table(Path(values["metrics"]), METRICS).to_pylist()
    if len(metrics) != 1:
        raise DataError(f"{values['metrics']}: {len(metrics)} rows, one expected; delete it and run again")
    settings = {key: value for key, value in values.items() if key not in ("rollouts", "graded", "metrics")}
    return page.Evaluated(name, settings, metrics[0], transcripts.read_rollouts(Path(values["graded"])))


def read_experiment(name: str, config: Mapping[str, Any]) -> page.Experiment:
    runs = [read_run(Path(folder), path) for path, folder in config["runs"].items()]
    order = ranked(configurations(runs, config))
    rollouts = transcripts.read_rollouts(order[0].runs[0].folder / "generations.parquet")
    svg = (Path(config["summary"]) / "curves.svg").read_text(encoding="utf-8")
    return page.Experiment(
        name=name,
        stage=config["stage"],
        description=config.get("description") or "",
        order=order,
        svg=curves.inline(svg, name),
        stories=transcripts.stories(rollouts),
    )


def provenance(spec: Mapping[str, Any], experiments: list[page.Experiment]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Output -> what it recorded about its making, for the base policy, every evaluation and every run."""
    if spec.get("base_metrics"):
        yield "base model", records.provenance_of(Path(spec["base_metrics"]))
    for name, values in spec.get("evaluations", {}).items():
        yield f"evaluation {name}", records.provenance_of(Path(values["graded"]))
    for experiment in experiments:
        for configuration in experiment.order:
            for one in configuration.runs:
                yield f"{experiment.name}/{one.path}", dict(one.provenance)


def collect(spec: Mapping[str, Any]) -> page.Report:
    """Read everything that the specification names; absent sections stay empty."""
    base = records.read_table(Path(spec["base_metrics"]), METRICS).to_pylist() if spec.get("base_metrics") else []
    configured = spec.get("experiments", {})
    experiments = [read_experiment(name, configured[name]) for name in ladder.in_order(configured)]
    files = spec.get("examples", {})
    return page.Report(
        preset=spec["preset"],
        model=spec["model"],
        data=spec.get("data", {}),
        sizes={name: records.read_table(Path(file), EXAMPLES).num_rows for name, file in files.items()},
        evaluations=[read_evaluation(name, values) for name, values in spec.get("evaluations", {}).items()],
        experiments=experiments,
        pretraining_svg=curves.inline(curves.to_svg(curves.pretraining_figure(base)), "base") if base else "",
        pretraining_seconds=max((row["seconds"] for row in base), default=0.0),
        provenance=dict(provenance(spec, experiments)),
    )


def report(
    spec: Annotated[Path, typer.Option(help="Specification: paths of everything the report shows.")],
    html: Annotated[Path, typer.Option(help="Page to write.")],
    markdown: Annotated[Path, typer.Option(help="Markdown file to write.")],
) -> None:
    """Write the report of all evaluations and experiments."""
    found = collect(read_spec(spec))
    text = page.html(found)
    write_text(html, text)
    write_text(markdown, page.markdown(found))
    say(f"{html}: {len(text.encode()) / 1e6:.1f} MB")


if __name__ == "__main__":
    run(lambda: typer.run(report))
