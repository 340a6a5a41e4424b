"""Summarise an experiment: table, curves, winner and transcripts, in one folder.

python -m stages.summarize --spec F --winner results/winners/<experiment>.json --out results/<experiment> RUN_DIR...
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stages.console import run, say
from stages.records import DataError
from stages.reporting import canvas, curves, leaderboard, markdown, tables, transcripts, wording
from stages.reporting.choice import Choice, choose
from stages.reporting.contents import Experiment
from stages.reporting.references import read_references
from stages.reporting.runs import Configuration, configurations, read_runs
from stages.store import new_directory, write_json
from stages.strict import read_spec


def winner_facts(name: str, choice: Choice) -> dict[str, Any]:
    """The winner with its score and that of the best other: what the winners file leaves out to keep its bytes."""
    best, measure = choice.winner, choice.winner.measure
    facts: dict[str, Any] = {"experiment": name, "run": best.path, "values": dict(best.values)}
    facts |= {"metric": measure.column}
    facts |= {"score": best.score, "seeds": [one.seed for one in best.runs], "scores": best.scores}
    facts |= {"decided": choice.decided, "default": dict(choice.declared.values)}
    if len(choice.arms) > 1:
        second = choice.order[1]
        facts["runner_up"] = {"run": second.path, "values": dict(second.values), "score": second.score}
        facts["lead"] = measure.ahead(best.score, second.score)
    return facts | {"sentence": wording.outcome(choice)}


def transcript_text(name: str, order: Sequence[Configuration]) -> str:
    """Transcripts of the winner's first run, and the last samples of up to two runs that did not finish."""
    best = order[0].runs[0]
    stopped = [one for configuration in order for one in configuration.runs if one.status != "finished"][:2]
    last = [
        (one.path, transcripts.last_words(transcripts.read_rollouts(one.folder / "generations.parquet")))
        for one in stopped
    ]
    found = transcripts.stories(transcripts.read_rollouts(best.folder / "generations.parquet"))
    return transcripts.markdown(name, best.path, found, last)


def write_figure(folder: Path, name: str, figure: Any) -> None:
    (folder / f"{name}.svg").write_text(canvas.to_svg(figure), encoding="utf-8")
    (folder / f"{name}.png").write_bytes(canvas.to_png(figure))


def summarize(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folder of each run.")],
    spec: Annotated[Path, typer.Option(help="Specification: the experiment and its runs.")],
    winner: Annotated[Path, typer.Option(help="Winner file that select wrote from the same runs.")],
    out: Annotated[Path, typer.Option(help="Folder to write; an older one is replaced.")],
) -> None:
    """Write table.csv, table.md, curves.svg, curves.png, winner.json and transcripts.md of an experiment, and
    leaderboard.md, leaderboard.svg and leaderboard.png of one with a wall-clock budget."""
    planned = read_spec(spec)
    name, experiment = planned["name"], planned["experiment"]
    choice = choose(configurations(read_runs(planned["runs"], run_dirs), experiment), experiment)
    order = choice.order
    chosen = read_spec(winner)
    if chosen["values"] != order[0].values:
        raise DataError(f"{winner}: says {chosen['values']}, the runs say {dict(order[0].values)}; run select again")
    references = read_references(planned.get("references", {}))
    shown = Experiment(
        name,
        experiment["stage"],
        experiment.get("description") or "",
        choice,
        references,
        board=planned.get("board") or {},
    )
    rows = tables.run_rows(order) + tables.seed_rows(order) + tables.reference_rows(references)
    with new_directory(out) as folder:
        (folder / "table.csv").write_text(tables.write_csv(rows), encoding="utf-8")
        (folder / "table.md").write_text(markdown.experiment(shown), encoding="utf-8")
        write_figure(folder, "curves", curves.experiment_figure(name, order[: len(choice.arms)], references))
        write_json(folder / "winner.json", winner_facts(name, choice))
        (folder / "transcripts.md").write_text(transcript_text(name, order), encoding="utf-8")
        if shown.leaderboard:
            (folder / "leaderboard.md").write_text(leaderboard.markdown(shown.leaderboard), encoding="utf-8")
            write_figure(folder, "leaderboard", leaderboard.figure(name, order[0], shown.leaderboard.budget))
    say(f"{name}: {wording.outcome(choice)}")


if __name__ == "__main__":
    run(lambda: typer.run(summarize))
