"""Grade sampled responses: rewards and verdict for every rollout, and the counts of an evaluation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stages.config import Evaluation
from stages.console import run, say
from stages.measure import sampling_metrics, validation_metrics
from stages.records import METRICS, ROLLOUTS, DataError, provenance_of, read_table, table, write_table
from stages.store import provenance
from stages.strict import parse, read_spec

if TYPE_CHECKING:
    import pyarrow as pa

    from stages.grading import Verdict

GRADED = ("format_reward", "answer_reward", "reward", "verdict")
MEASURED = ("example_id", "num_response_tokens", "finish_reason", "mean_token_entropy", *GRADED)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def grade(
    spec: Annotated[Path | None, typer.Option(help="spec.json of the evaluation")] = None,
    rollouts: Annotated[Path | None, typer.Option(help="Parquet file of ROLLOUTS rows to grade")] = None,
    graded: Annotated[Path | None, typer.Option(help="Parquet file to write: the same rows with their rewards")] = None,
    metrics: Annotated[Path | None, typer.Option(help="Parquet file to write: one METRICS row of counts")] = None,
    explain: Annotated[
        tuple[str, str] | None,
        typer.Option(help="instead of all this, say how one ANSWER compares with its GOLD", metavar="GOLD ANSWER"),
    ] = None,
) -> None:
    """Grade every rollout of an evaluation, or explain one comparison.

    All rows are kept, in order; a response without a usable answer is a row with a verdict, never a missing row. With
    reward `none` they stay as they are, and lengths alone are counted.
    """
    if explain is not None:
        _explain(*explain)
        return
    given = {"--spec": spec, "--rollouts": rollouts, "--graded": graded}
    missing = [option for option, value in given.items() if value is None]
    if missing:
        raise typer.BadParameter(f"give {', '.join(missing)}, or --explain GOLD ANSWER")
    _grade_rollouts(spec, rollouts, graded, metrics)


def _explain(gold: str, answer: str) -> None:
    from stages.grading.explain import explain

    print(explain(gold, answer))


def _grade_rollouts(spec: Path, rollouts: Path, graded: Path, metrics: Path | None) -> None:
    planned = read_spec(spec)
    evaluation = parse(Evaluation, planned["values"], f"evaluations.{planned['name']}")
    sampled = read_table(rollouts, ROLLOUTS)
    if not len(sampled):
        raise DataError(f"{rollouts}: no rollouts in it; delete it and sample again")
    began = time.monotonic()
    filled = sampled if evaluation.reward == "none" else fill(sampled, verdicts_of(sampled, evaluation.reward))
    seconds = time.monotonic() - began
    sampled_with = provenance_of(rollouts)
    write_table(graded, filled, provenance(planned) | {"seconds": seconds})
    sampling = sampled_with.get("seconds", 0.0)
    measure = sampling_metrics if evaluation.reward == "none" else validation_metrics
    counts = measure(filled.select(MEASURED).to_pylist(), step=0, seconds=sampling + seconds)
    if metrics is not None:
        spent = {"seconds_sample": sampled_with.get("seconds_generating"), "seconds_grade": seconds}
        if spent["seconds_sample"]:
            spent["examples_per_second"] = counts["num_examples"] / spent["seconds_sample"]
        hardware = {key: sampled_with[key] for key in ("gpus", "cores") if key in sampled_with}
        write_table(metrics, table([counts | spent], METRICS), provenance(planned) | hardware)
    say(summary(planned["name"], counts))


def verdicts_of(sampled: pa.Table, reward: str) -> list[Verdict]:
    from stages.grading.pool import GraderPool

    pairs = list(zip(sampled["response"].to_pylist(), sampled["ground_truth"].to_pylist(), strict=True))
    with GraderPool() as pool:
        return pool.grade(pairs, reward)


def fill(sampled: pa.Table, verdicts: list[Verdict]) -> pa.Table:
    """ROLLOUTS with the columns of GRADED filled from one verdict per row; every other column is untouched."""
    import pyarrow as pa

    if len(verdicts) != len(sampled):
        raise ValueError(f"{len(verdicts)} verdicts for {len(sampled)} rollouts")
    for name in GRADED:
        values = pa.array([getattr(verdict, name) for verdict in verdicts], ROLLOUTS.field(name).type)
        sampled = sampled.set_column(ROLLOUTS.get_field_index(name), ROLLOUTS.field(name), values)
    return sampled


def summary(name: str, counts: dict[str, Any]) -> str:
    if "answer_reward" not in counts:
        return f"{name}: responses to {counts['num_examples']} instructions, for a judge to decide"
    total = sum(counts[bucket] for bucket in ("format1_answer1", "format1_answer0", "format0_answer0"))
    return (
        f"{name}: {total} responses, {counts['answer_reward']:.1%} right ({counts['format1_answer1']} right, "
        f"{counts['format1_answer0']} well-formed and wrong, {counts['format0_answer0']} without an answer; "
        f"{counts['ungraded']} ungraded, {counts['truncated']:.1%} truncated)"
    )


if __name__ == "__main__":
    run(app)
