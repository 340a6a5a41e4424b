"""Grade sampled responses: rewards and verdict for every rollout, and the counts of an evaluation."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stages.config import Evaluation
from stages.console import run, say
from stages.measure import last_within, sampling_metrics, validation_metrics
from stages.records import METRICS, ROLLOUTS, DataError, provenance_of, read_table, table, write_table
from stages.store import provenance, sha256, write_json
from stages.strict import ConfigError, parse, read_spec

if TYPE_CHECKING:
    import pyarrow as pa

    from stages.grading import Verdict

GRADED = ("format_reward", "answer_reward", "reward", "verdict")
MEASURED = ("example_id", "num_response_tokens", "finish_reason", "mean_token_entropy", *GRADED)

READ = ("step", "response", "ground_truth", "answer_reward")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def grade(
    spec: Annotated[Path | None, typer.Option(help="spec.json of the evaluation")] = None,
    rollouts: Annotated[Path | None, typer.Option(help="Parquet file of ROLLOUTS rows to grade")] = None,
    graded: Annotated[Path | None, typer.Option(help="Parquet file to write: the same rows with their rewards")] = None,
    metrics: Annotated[Path | None, typer.Option(help="Parquet file to write: one METRICS row of counts")] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="instead of all this, grade a run's last validation with this FILE too", metavar="FILE"),
    ] = None,
    run_folder: Annotated[Path | None, typer.Option("--run", help="with --reference: the folder of the run")] = None,
    out: Annotated[Path | None, typer.Option(help="with --reference: JSON file to write the counts to")] = None,
    explain: Annotated[
        tuple[str, str] | None,
        typer.Option(help="instead of all this, say how one ANSWER compares with its GOLD", metavar="GOLD ANSWER"),
    ] = None,
) -> None:
    """Grade every rollout of an evaluation, explain one comparison, or let another grader say what it makes of a run.

    All rows are kept, in order; a response without a usable answer is a row with a verdict, never a missing row. With
    reward `none` they stay as they are, and lengths alone are counted.

    `--reference FILE` is for the public grader of the course, drgrpo_grader.py, which hands text of the policy to
    sympy: it works in processes of its own, with limits of time and memory.
    """
    if reference is not None:
        if run_folder is None:
            raise typer.BadParameter("give --run, the folder of the run whose last validation to grade")
        _grade_run(reference, run_folder, out)
        return
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


def _grade_run(file: Path, folder: Path, out: Path | None) -> None:
    """What the grader in `file` makes of the validation that the leaderboard counts: the last one within the budget."""
    from stages.grading import reference

    if (fault := reference.fault(file)) is not None:
        raise ConfigError(fault)
    values = read_spec(folder / "status.json")["values"]
    metrics = read_table(folder / "metrics.parquet", METRICS).to_pylist()
    last = last_within(metrics, "answer_reward", values.get("max_seconds") or math.inf)
    if last is None:
        raise DataError(f"{folder}: no validation in it that ended within its budget, so there is nothing to grade")
    generations = read_table(folder / "generations.parquet", ROLLOUTS)
    rows = [row for row in generations.select(READ).to_pylist() if row["step"] == last["step"]]
    workers = int(os.environ.get("OMP_NUM_THREADS") or 1)  # the threads of the job
    try:
        pairs = [(row["response"], row["ground_truth"]) for row in rows]
        graded = reference.grade(file, pairs, values.get("reward", "r1_zero"), workers)
    except reference.UnusableGrader as error:
        raise ConfigError(str(error)) from None
    here, there = [row["answer_reward"] or 0.0 for row in rows], [one.answer_reward for one in graded]
    counts = {
        "file": file.name,
        "sha256": sha256(file),
        "step": last["step"],
        "responses": len(rows),
        "answer_reward": fmean(there),
        "format_reward": fmean(one.format_reward for one in graded),
        "answer_reward_here": fmean(here),
        "right_there_alone": sum(b > a for a, b in zip(here, there, strict=True)),
        "right_here_alone": sum(a > b for a, b in zip(here, there, strict=True)),
        "faults": reference.faults(graded),
    }
    if out is not None:
        write_json(out, counts)
    say(
        f"{folder}, step {last['step']}, {len(rows)} responses: {counts['answer_reward_here']:.2%} right here, "
        f"{counts['answer_reward']:.2%} by {file.name} ({counts['right_there_alone']} right there alone, "
        f"{counts['right_here_alone']} here alone, {sum(counts['faults'].values())} not graded there)"
    )


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
