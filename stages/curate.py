"""Keep those examples whose worked response reaches the right answer: rejection sampling for fine-tuning."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from stages.console import run, say
from stages.records import EXAMPLES, DataError, read_table, write_table
from stages.sources import Curated, parse_source
from stages.store import provenance
from stages.strict import ConfigError, read_spec

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def curate(
    spec: Annotated[Path, typer.Option(help="spec.json of the dataset; its values name the source and the reward")],
    examples: Annotated[Path, typer.Option(help="Parquet file of EXAMPLES rows with responses")],
    out: Annotated[Path, typer.Option(help="Parquet file to write: the same rows, those answered right")],
) -> None:
    """Grade the response of every example against its ground truth and keep the correct ones, in order.

    The metadata of the file written says how many were kept of how many.
    """
    planned = read_spec(spec)
    name = planned["name"]
    source = parse_source(planned["values"], f"data.{name}")
    if not isinstance(source, Curated):
        raise ConfigError(f"data.{name}: source {source.source!r} is made by stages.prepare, not by stages.curate")
    given = read_table(examples, EXAMPLES)
    bare = [row["example_id"] for row in given.to_pylist() if row["response"] is None]
    if bare:
        raise DataError(
            f"{examples}: {len(bare)} of {len(given)} examples have no response to grade (first: {bare[0]}); "
            f"data.{name}.dataset must name a dataset with responses"
        )

    from stages.grading.pool import GraderPool

    pairs = list(zip(given["response"].to_pylist(), given["ground_truth"].to_pylist(), strict=True))
    with GraderPool() as pool:
        verdicts = [graded.verdict for graded in pool.grade(pairs, source.reward)]
    counts = Counter(verdicts)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    if not counts["correct"]:
        raise DataError(
            f"{examples}: none of {len(given)} responses is graded correct by {source.reward} ({told or 'no rows'}), "
            f"and nothing can be trained on nothing; check that data.{name}.reward fits the form of the responses"
        )
    kept = given.filter([verdict == "correct" for verdict in verdicts])
    write_table(out, kept, provenance(planned) | {"kept": len(kept), "total": len(given), "verdicts": dict(counts)})
    say(f"{name}: kept {len(kept)}/{len(given)} ({told}) -> {out}")


if __name__ == "__main__":
    run(app)
