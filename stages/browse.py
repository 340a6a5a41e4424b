"""Read sampled responses in the terminal.

python -m stages.browse results/evaluations/<name>/graded.parquet --verdict wrong
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stages.console import Plain, run
from stages.examples import drawn, named
from stages.records import DataError
from stages.reporting import transcripts
from stages.reporting.runs import column, mean
from stages.reporting.wording import fixed
from stages.strict import ConfigError, nearest

VERDICTS = ("correct", "wrong", "unformatted", "timeout", "too_long", "bad_reference", "ungraded")
COLOURS = {"correct": "green", "wrong": "red", "unformatted": "yellow"}
Row = Mapping[str, Any]


def verdict_of(row: Row) -> str:
    return row["verdict"] or "ungraded"


def summary(rows: Sequence[Row]) -> Table:
    """One line per step of the policy that sampled, with its rollout batch: how many, how good, how long, how sure."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("step", "batch", "responses", "answer", "format", "length", "cut off", "entropy"):
        table.add_column(name, justify="right")
    for step in sorted({row["step"] for row in rows}):
        at = [row for row in rows if row["step"] == step]
        names = ("answer_reward", "format_reward", "num_response_tokens", "mean_token_entropy")
        answer, form, length, entropy = (mean(column(at, name)) if column(at, name) else None for name in names)
        cut = mean(row["finish_reason"] == "length" for row in at)
        rewards = (fixed(answer), fixed(form), fixed(length, 1), fixed(cut), fixed(entropy))
        batches = sorted({row["rollout_batch"] for row in at} - {None})
        table.add_row(str(step), ", ".join(map(str, batches)) or "–", str(len(at)), *rewards)
    return table


def chosen(rows: Sequence[Row], step: int | None, verdict: str | None, example: str | None) -> list[Row]:
    """The rows asked for. A step or question that is not there is an error."""
    steps, examples = {row["step"] for row in rows}, {row["example_id"] for row in rows}
    if step is not None and step not in steps:
        some = ", ".join(str(one) for one in transcripts.spaced(steps, 8)) or "none"
        raise DataError(f"--step {step}: the file has {len(steps)} steps, among them {some}")
    if example is not None and example not in examples:
        close = difflib.get_close_matches(example, examples, n=3) or sorted(examples)[:3]
        raise DataError(f"--example {example}: the file has {len(examples)} questions, among them {', '.join(close)}")
    return [
        row
        for row in rows
        if step in (None, row["step"]) and example in (None, row["example_id"]) and verdict in (None, verdict_of(row))
    ]


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["step"], row["example_id"], row["sample_index"]))


def transcript(row: Row, prompt_characters: int) -> Panel:
    """One response. Text objects, never markup: what a model writes cannot colour or link anything."""
    colour = COLOURS.get(verdict_of(row), "magenta")
    prompt = transcripts.shorten(row["prompt"], prompt_characters, prompt_characters)
    body = Group(
        Text(transcripts.visible(prompt), style="dim"),
        Text(transcripts.visible(row["response"])),
        Text(f"reference {transcripts.visible(row['ground_truth'])}", style="cyan"),
        Text(transcripts.facts(row), style=colour),  # below, where a narrow terminal wraps it
    )
    title = f"{row['example_id']} · step {row['step']} · sample {row['sample_index']}"
    return Panel(
        body,
        title=Text(transcripts.visible(title), style="bold"),
        border_style=colour,
        title_align="left",
    )


def browse(
    file: Annotated[Path, typer.Argument(help="A rollouts, graded or generations Parquet file.")],
    step: Annotated[int | None, typer.Option(help="Only what was sampled after so many optimiser steps.")] = None,
    verdict: Annotated[str | None, typer.Option(help=f"Only this verdict: {', '.join(VERDICTS)}.")] = None,
    example: Annotated[str | None, typer.Option(help="Only this example_id: how one question went over time.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many transcripts to print, drawn at random; 0: none.")] = 10,
    prompt_characters: Annotated[int, typer.Option(min=0, help="How much of each prompt's end to print.")] = 240,
) -> None:
    """Print a summary per step and readable transcripts of sampled responses.

    Line ends show as ↵, tabs as ⇥, spaces before a line end as ·, invisible characters as escapes.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise ConfigError(f"--verdict {verdict}: {nearest(verdict, list(VERDICTS))}")
    rows = transcripts.read_rollouts(file)
    console = Plain(highlight=False)
    kept = chosen(rows, step, verdict, example)
    console.print(summary(rows))
    for row in in_order(drawn(kept, limit, lambda row: f"{named(row)}/{row['step']}")):
        console.print(transcript(row, prompt_characters))
    console.print(Text(f"{min(limit, len(kept))} of {len(kept)} matching responses, {len(rows)} in the file"))


if __name__ == "__main__":
    run(lambda: typer.run(browse))
