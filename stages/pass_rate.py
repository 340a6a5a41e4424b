"""Filter a training set by how often the policy gets each question right.

python -m stages.pass_rate --spec … --examples … --graded … --out …
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from stages.console import run, say
from stages.records import EXAMPLES, ROLLOUTS, DataError, read_table, table, write_table
from stages.sources import PassRate
from stages.store import provenance
from stages.strict import parse, read_spec

Row = dict[str, Any]
GRADED = pa.schema([ROLLOUTS.field(name) for name in ("example_id", "answer_reward")])

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    spec: Annotated[Path, typer.Option(exists=True, help="spec.json of the dataset")],
    examples: Annotated[Path, typer.Option(exists=True, help="EXAMPLES that the evaluation sampled from")],
    graded: Annotated[Path, typer.Option(exists=True, help="graded ROLLOUTS of the evaluation")],
    out: Annotated[Path, typer.Option(help="Parquet file to write: the questions within the bounds, easiest first")],
) -> None:
    """Keep the questions whose share of right responses lies within the bounds of the source."""
    planned = read_spec(spec)
    source = parse(PassRate, planned["values"], f"data.{planned['name']}")
    rates = pass_rates(read_table(graded, GRADED).to_pylist())
    kept = within(read_table(examples, EXAMPLES).to_pylist(), rates, source.at_least, source.at_most)
    if not kept:
        raise DataError(
            f"{graded}: none of {len(rates)} questions has a pass rate from {source.at_least} to {source.at_most}; "
            f"widen data.{planned['name']}.at_least and at_most"
        )
    write_table(out, table(kept, EXAMPLES), provenance(planned) | {"kept": len(kept), "total": len(rates)})
    say(f"{planned['name']}: kept {len(kept)} of {len(rates)} questions -> {out}")


def pass_rates(rows: list[Row]) -> dict[str, float]:
    """Example id -> share of its responses that are right."""
    outcomes: dict[str, list[bool]] = {}
    for row in rows:
        outcomes.setdefault(row["example_id"], []).append(row["answer_reward"] > 0)
    return {name: sum(right) / len(right) for name, right in outcomes.items()}


def within(examples: list[Row], rates: dict[str, float], at_least: float, at_most: float) -> list[Row]:
    """Examples whose rate is known and within the bounds, both included, the highest rate first, ties in order."""
    known = [row for row in examples if at_least <= rates.get(row["example_id"], -1.0) <= at_most]
    return sorted(known, key=lambda row: -rates[row["example_id"]])


if __name__ == "__main__":
    run(app)
