"""How the seconds of a GRPO step grow with rollouts, response length and group size, phase by phase.

python -m benchmarks.scaling
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

PHASES = ("sample", "grade", "score", "train", "sync")
Seconds = dict[str, float]
START = {"rollouts": 128, "length": 32, "group": 8}
SWEEPS: dict[str, tuple[int, ...]] = {  # what is doubled while the other two stay as in START
    "rollouts": (32, 64, 128, 256),
    "length": (16, 32, 64, 128),
    "group": (2, 4, 8, 16),
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    model: Annotated[Path, typer.Option(help="Hugging Face folder of the policy")] = Path("results/models/base"),
    repeats: Annotated[int, typer.Option(min=1, help="timed steps of each setting; the median counts")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="threads of the process")] = 2,
) -> None:
    """Time single GRPO steps at doubled sizes; prints one table, stores nothing.

    Every response is forced to its full length and every group is given unequal rewards, so that all of the work is
    done at every size, with two optimiser steps on each batch, so that old log-probs are scored too. In brackets: the
    exponent e of seconds ~ size^e since the row before; 1 is proportional, above 1 superlinear. Leave the machine idle.
    """
    import torch

    if not (model / "config.json").exists():
        raise SystemExit(
            f"error: {model / 'config.json'}: no such file; run `make demo` first, which makes results/models/base, "
            "or name another with --model"
        )
    torch.set_num_threads(threads)
    measured = {}
    for name, values in SWEEPS.items():
        measured[name] = [time_step(model, START | {name: value}, repeats) for value in values]
    Console().print(report(measured, threads))


def time_step(model: Path, sizes: dict[str, int], repeats: int) -> Seconds:
    """Median seconds of each phase of a step, and of their sum as `step`."""
    from benchmarks.ladder_peer import grpo_run, take_step
    from stages.tasks.arithmetic import examples

    with tempfile.TemporaryDirectory(prefix="scaling.") as name:
        with grpo_run(Path(name), model, settings_of(sizes), examples("train", 512, 0)) as run:
            grading, steps = do_all_work(run), []
            for _ in range(1 + repeats):  # the first warms up
                row = take_step(run)[-1]
                steps.append({phase: row.get(f"seconds_{phase}") or 0.0 for phase in PHASES})
                steps[-1]["grade"] = grading[-1]
                steps[-1]["sample"] -= grading[-1]
                steps[-1]["step"] = sum(steps[-1].values())
    return {phase: statistics.median(step[phase] for step in steps[1:]) for phase in steps[0]}


def settings_of(sizes: dict[str, int]) -> dict[str, Any]:
    """Values of config.Grpo for a step of `rollouts` responses of `length` tokens in groups of `group`."""
    return {
        "train": "train",
        "validation": "validation",
        "rollout_batch_size": sizes["rollouts"],
        "train_batch_size": sizes["rollouts"] // 2,
        "group_size": sizes["group"],
        "gradient_accumulation_steps": 1,
        "sampling_min_tokens": sizes["length"],
        "sampling_max_tokens": sizes["length"],
        "sampling_batch_size": sizes["rollouts"],
        "learning_rate": 0.0,
        "loss_type": "grpo_clip",
    }


def do_all_work(run: Any) -> list[float]:
    """Make `run` grade apart from sampling, to time it, and reward by turns, so that no group is tied and skipped.

    Returns a list that grows by the seconds spent grading in each step.
    """
    sample, submit, grading = run.sample, run.pool.submit, []

    def submit_and_wait(items: Sequence[tuple[str, Any]], kind: str) -> Any:
        began = time.monotonic()
        future = submit(items, kind)
        future.result()
        grading[-1] += time.monotonic() - began
        return future

    def rewarded(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
        grading.append(0.0)
        rows = sample(*arguments, **options)
        for row in rows:
            row["answer_reward"] = float(row["sample_index"] % 2)
        return rows

    run.sample, run.pool.submit = rewarded, submit_and_wait
    return grading


def exponent(before: float, after: float, factor: float) -> float:
    """e in after = before * factor ** e."""
    return math.log(after / before) / math.log(factor)


def report(measured: dict[str, list[Seconds]], threads: int) -> Table:
    from importlib.metadata import version

    table = Table(title=f"Seconds per GRPO step, CPU, {threads} threads (growth exponent since the row before)")
    table.add_column("doubled")
    for column in ("size", *PHASES, "step"):
        table.add_column(column, justify="right")
    for name, rows in measured.items():
        sizes = SWEEPS[name]
        for index, row in enumerate(rows):
            factor = sizes[index] / sizes[index - 1] if index else 0
            cells = [cell(row[phase], rows[index - 1][phase], factor) for phase in (*PHASES, "step")]
            table.add_row("" if index else name, str(sizes[index]), *cells, end_section=index == len(rows) - 1)
    others = ", ".join(f"{name} {value}" for name, value in START.items())
    table.caption = f"otherwise: {others}\ntorch {version('torch')}, transformers {version('transformers')}"
    return table


def cell(seconds: float, before: float, factor: float) -> str:
    """Seconds, with the exponent where both are long enough to be more than noise."""
    if not factor or min(seconds, before) < 0.005:
        return f"{seconds:.3f}"
    return f"{seconds:.3f} ({exponent(before, seconds, factor):+.2f})"


if __name__ == "__main__":
    app()
