"""The files of a training stage, and the command line that names them: one option each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, get_type_hints

import typer


@dataclass(frozen=True)
class Files:
    """Inputs and outputs of a training stage. `rollouts` is None where training samples nothing."""

    spec: Annotated[Path, typer.Option(exists=True, help="specification of the run")]
    model: Annotated[Path, typer.Option(exists=True, help="Hugging Face folder of the policy to start from")]
    train: Annotated[Path, typer.Option(exists=True, help="training rows in Parquet")]
    validation: Annotated[Path, typer.Option(exists=True, help="validation rows in Parquet")]
    state: Annotated[Path, typer.Option(help="folder for unfinished work")]
    metrics: Annotated[Path, typer.Option(help="METRICS to write")]
    generations: Annotated[Path, typer.Option(help="ROLLOUTS to write: what validations sampled")]
    checkpoint: Annotated[Path, typer.Option(help="folder to write the trained policy to")]
    status: Annotated[Path, typer.Option(help="how the run ended, as JSON")]
    winners: Annotated[list[Path], typer.Option(help="winners to inherit values from; repeatable")] = ()
    rollouts: Annotated[Path | None, typer.Option(help="ROLLOUTS to write: what training sampled")] = None


Stage = Callable[[Files], None]


def command(app: typer.Typer, *, rollouts: bool = False) -> Callable[[Stage], Stage]:
    """Make a function of `Files` the command of `app`. With `rollouts`, that file must be named; else it cannot be."""

    def register(function: Stage) -> Stage:
        def main(**named: Path) -> None:
            function(Files(**named))

        main.__doc__ = function.__doc__
        main.__signature__ = inspect.Signature(_options(rollouts))
        app.command()(main)
        return function

    return register


def _options(rollouts: bool) -> list[inspect.Parameter]:
    hints = get_type_hints(Files, include_extras=True)
    options = []
    for field in fields(Files):
        required = field.default is MISSING or field.name == "rollouts"
        default = inspect.Parameter.empty if required else field.default
        if rollouts or field.name != "rollouts":
            kind = inspect.Parameter.KEYWORD_ONLY
            options.append(inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name]))
    return options
