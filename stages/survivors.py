"""What expert iteration learns from: those of a round's graded rollouts that are right.

python -m stages.survivors --spec … --graded … --out …
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from stages.console import run, say
from stages.records import EXAMPLES, ROLLOUTS, read_table, table, write_table
from stages.store import provenance
from stages.strict import read_spec

Row = dict[str, Any]
COLUMNS = ("example_id", "sample_index", "response", "finish_reason", "ground_truth", "reward")
GRADED = pa.schema([ROLLOUTS.field(name) for name in COLUMNS])

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    spec: Annotated[Path, typer.Option(exists=True, help="specification of the round")],
    graded: Annotated[Path, typer.Option(exists=True, help="graded ROLLOUTS of the round")],
    data: Annotated[Path, typer.Option(exists=True, help="EXAMPLES that were sampled from, for the bare questions")],
    out: Annotated[Path, typer.Option(help="EXAMPLES to write, one for each surviving response")],
) -> None:
    """Keep the complete responses with reward 1. None surviving is a result, not an error: the round then trains on
    nothing."""
    plan = read_spec(spec)
    rows = read_table(graded, GRADED).to_pylist()
    questions = {row["example_id"]: row["question"] for row in read_table(data, EXAMPLES).to_pylist()}
    kept, repeats = survivors(rows, questions, plan["values"]["remove_duplicates"])
    counts = {
        "responses": len(rows),
        "questions": len({row["example_id"] for row in rows}),
        "correct": sum(row["reward"] > 0 for row in rows),
        "solved": len({row["example_id"] for row in rows if row["reward"] > 0}),
        "truncated": sum(row["reward"] > 0 and row["finish_reason"] == "length" for row in rows),
        "duplicates": repeats,
        "kept": len(kept),
    }
    write_table(out, table(kept, EXAMPLES), provenance(plan) | {"counts": counts})
    say(f"{plan['name']}: " + ", ".join(f"{value} {key}" for key, value in counts.items()))


def survivors(rows: list[Row], questions: dict[str, str], remove_duplicates: bool) -> tuple[list[Row], int]:
    """EXAMPLES rows of the rewarded rollouts, in order, and how many of them repeat an earlier response to the same
    question. Repeats are kept, and weigh more, unless `remove_duplicates`. A right answer in a response that the token
    limit cut off is left out: fine-tuning would teach to end there."""
    kept: list[Row] = []
    seen: set[tuple[str, str]] = set()
    repeats = 0
    for row in rows:
        if not row["reward"] > 0 or row["finish_reason"] == "length":
            continue
        text = (row["example_id"], row["response"])
        repeats += text in seen
        if text in seen and remove_duplicates:
            continue
        seen.add(text)
        kept.append(
            {
                "example_id": f"{row['example_id']}/{row['sample_index']}",
                "question": questions[row["example_id"]],
                "ground_truth": row["ground_truth"],
                "response": row["response"],
            }
        )
    return kept, repeats


if __name__ == "__main__":
    run(app)
