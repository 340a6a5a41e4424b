"""Make one dataset of the configuration: generated problems, or a file of the user's, as EXAMPLES rows in Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stages.config import Arithmetic, ArithmeticTraces, ConfigError, Gsm8k, JsonLines, parse_source, read_spec
from stages.console import run, say
from stages.records import EXAMPLES, table, write_table
from stages.store import provenance
from stages.tasks import arithmetic, gsm8k, jsonl

Rows = list[dict[str, Any]]

app = typer.Typer(add_completion=False)


def _arithmetic(source: Arithmetic, name: str) -> Rows:
    return arithmetic.examples(source.split, source.size, source.seed, name)


def _arithmetic_traces(source: ArithmeticTraces, name: str) -> Rows:
    return arithmetic.traces(source.size, source.wrong_fraction, source.seed, name)


def _jsonl(source: JsonLines, name: str) -> Rows:
    return jsonl.load(Path(source.path), name, source.question, source.answer, source.response)


def _gsm8k(source: Gsm8k, name: str) -> Rows:
    return gsm8k.load(Path(source.path), name)


LOADERS: dict[str, Callable[[Any, str], Rows]] = {
    "arithmetic": _arithmetic,
    "arithmetic_traces": _arithmetic_traces,
    "jsonl": _jsonl,
    "gsm8k": _gsm8k,
}


@app.command()
def prepare(
    spec: Annotated[Path, typer.Option(help="spec.json of the dataset; its values are an entry of `data`")],
    out: Annotated[Path, typer.Option(help="Parquet file of EXAMPLES rows to write")],
) -> None:
    """Make one dataset: generated arithmetic, GSM8K's own files, or your own JSON lines."""
    planned = read_spec(spec)
    name = planned["name"]
    source = parse_source(planned["values"], f"data.{name}")
    if source.source not in LOADERS:
        raise ConfigError(f"data.{name}: source {source.source!r} is made by stages.curate, not by stages.prepare")
    try:
        rows = LOADERS[source.source](source, name)
    except arithmetic.TooMany as error:
        raise ConfigError(f"data.{name}.size: {error}") from None
    write_table(out, table(rows, EXAMPLES), provenance(planned))
    say(f"{name}: {len(rows)} examples -> {out}")


if __name__ == "__main__":
    run(app)
