"""Choose the winner of an experiment: the configuration that later experiments inherit. It is the default, unless
another is ahead of it by more than chance explains (reporting/choice.py).

    python -m stages.select --spec results/…/spec.json --out results/winners/<experiment>.json RUN_DIR...

The file names the winning values and nothing that a rerun with the same winner would change, so that it keeps its bytes
and later experiments keep their results; scores are in the experiment's own winner.json. `run` is there because an
evaluation of the winner needs a checkpoint: it is the configuration's first seed, never its best one (which would be a
choice made on noise, and not stable), so it follows from the values alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stages.console import run, say
from stages.reporting import wording
from stages.reporting.choice import choose
from stages.reporting.runs import configurations, read_runs
from stages.store import write_json
from stages.strict import read_spec


def select(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Folder of each run.")],
    spec: Annotated[Path, typer.Option(help="Specification: the experiment and its runs.")],
    out: Annotated[Path, typer.Option(help="Winner file to write.")],
) -> None:
    """Write the swept values of the configuration of an experiment that is passed on."""
    planned = read_spec(spec)
    plan = planned["experiment"]
    choice = choose(configurations(read_runs(planned["runs"], run_dirs), plan), plan)
    write_json(out, {"experiment": planned["name"], "run": choice.winner.path, "values": dict(choice.winner.values)})
    say(f"{planned['name']}: {wording.outcome(choice)}")


if __name__ == "__main__":
    run(lambda: typer.run(select))
