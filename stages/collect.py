"""Put the rounds of expert iteration together: one run, one curve, one policy.

python -m stages.collect --spec … --metrics … --generations … --checkpoint … --status … ROUND_FOLDER…
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from stages.console import run
from stages.records import METRICS, ROLLOUTS, provenance_of, read_table, table, write_table
from stages.store import new_directory, provenance, write_json
from stages.strict import read_spec

Row = dict[str, Any]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[list[Path], typer.Argument(exists=True, help="folders of the rounds, first to last")],
    spec: Annotated[Path, typer.Option(exists=True, help="specification of the run")],
    metrics: Annotated[Path, typer.Option(help="METRICS to write, steps counted through")],
    generations: Annotated[Path, typer.Option(help="validation ROLLOUTS to write, steps counted through")],
    checkpoint: Annotated[Path, typer.Option(help="folder for the policy of the last round")],
    status: Annotated[Path, typer.Option(help="status to write, with what each round kept")],
) -> None:
    """Join the rounds' metrics and validations; the policy is that of the last round."""
    plan = read_spec(spec)
    told = provenance(plan)
    states = [read_spec(folder / "status.json") for folder in rounds]
    waits = [seconds_before(folder) for folder in rounds]
    rows, starts = joined([read_table(folder / "metrics.parquet", METRICS).to_pylist() for folder in rounds], waits)
    write_table(metrics, table(rows, METRICS), told)
    write_table(generations, validations(rounds, starts), told)
    with new_directory(checkpoint) as folder:
        # Snakemake dates a folder by a hidden file in it; a shared one would date the round's folder anew as well.
        hidden = shutil.ignore_patterns(".snakemake_timestamp")
        shutil.copytree(rounds[-1] / "model", folder, ignore=hidden, copy_function=link, dirs_exist_ok=True)
    write_json(status, summary(plan, states, [counts_of(folder) for folder in rounds], rows, sum(waits)))


def seconds_before(folder: Path) -> float:
    """What sampling and grading took before the round's fine-tuning began; of an interrupted job, its last try."""
    return sum(provenance_of(folder / name).get("seconds", 0.0) for name in ("rollouts.parquet", "graded.parquet"))


def joined(rounds: list[list[Row]], waits: list[float]) -> tuple[list[Row], list[int]]:
    """METRICS rows of all rounds, with steps, examples and seconds counted through, and the step each round begins at.
    What a round samples is its rollout batch.

    The first round's first validation stands at the very start; all else in a round comes after its sampling and
    grading (`waits`).
    """
    rows: list[Row] = []
    starts: list[int] = []
    for number, (own, wait) in enumerate(zip(rounds, waits, strict=True), 1):
        before = {key: max((row[key] or 0 for row in rows), default=0) for key in ("step", "seconds")}
        examples = max((row["num_examples"] for row in rows if row["kind"] == "train"), default=0)
        starts.append(before["step"])
        for row in own:
            batches = number if row["step"] else number - 1
            row = row | {"round": number, "rollout_batch": batches, "step": row["step"] + before["step"]}
            row["seconds"] += before["seconds"] + (wait if row["step"] else 0.0)
            if row["kind"] == "train":
                row["num_examples"] += examples
            rows.append(row)
    return rows, starts


def validations(rounds: list[Path], starts: list[int]) -> pa.Table:
    parts = []
    for number, (folder, start) in enumerate(zip(rounds, starts, strict=True), 1):
        part = read_table(folder / "generations.parquet", ROLLOUTS)
        batches = pc.if_else(pc.greater(part["step"], 0), number, number - 1).cast(pa.int32())
        steps = pc.add(part["step"], pa.scalar(start, pa.int32()))
        for name, values in (("step", steps), ("rollout_batch", batches)):
            part = part.set_column(ROLLOUTS.get_field_index(name), ROLLOUTS.field(name), values)
        parts.append(part)
    return pa.concat_tables(parts)


def counts_of(folder: Path) -> Row:
    return provenance_of(folder / "survivors.parquet")["counts"]


def summary(plan: Row, states: list[Row], counts: list[Row], rows: list[Row], waited: float) -> Row:
    """The run's status: that of the first round that failed, if any; `rounds` says what each sampled, kept, reached."""
    failed = next((state for state in states if state["status"] != "finished"), None)
    barren = [number for number, count in enumerate(counts, 1) if not count["kept"]]
    reason = (
        f"no response survived in round {', '.join(map(str, barren))}; the policy stayed as it was" if barren else ""
    )
    scores = [
        [row["answer_reward"] for row in rows if row["kind"] == "validation" and row["round"] <= number][-1]
        for number in range(1, len(states) + 1)
    ]
    return {
        "status": failed["status"] if failed else "finished",
        "reason": failed["reason"] if failed else reason,
        "steps": sum(state["steps"] for state in states),
        "seconds": round(sum(state["seconds"] for state in states) + waited, 3),
        **{key: max(state.get(key, 0) for state in states) for key in ("gpus", "cores")},
        "values": plan["values"] | {key: states[-1]["values"][key] for key in plan.get("inherit", {})},
        "rounds": [count | {"answer_reward": score} for count, score in zip(counts, scores, strict=True)],
    }


def link(source: str, target: str) -> None:
    """A second name for the same bytes, where the file system can; a copy where not."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


if __name__ == "__main__":
    run(app)
