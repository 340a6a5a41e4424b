"""This project's side of a comparison, and the run that benchmarks measure: the product's own GRPO step, nothing else.

python -m benchmarks.ladder_peer job.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.blocks import Blocks

Row = dict[str, Any]


@contextmanager
def grpo_run(folder: Path, model: Path, values: Row, examples: list[Row], compute: Row | None = None) -> Iterator[Any]:
    """A GRPO run on `examples` (EXAMPLES rows) that keeps its files in `folder`; `values` are those of config.Grpo."""
    from stages import training
    from stages.records import EXAMPLES, table, write_table
    from stages.tasks import arithmetic

    spec = {"stage": "grpo", "name": "benchmark", "code": "benchmark", "values": values, "compute": compute or {}}
    (folder / "spec.json").write_text(json.dumps(spec))
    write_table(folder / "examples.parquet", table(examples, EXAMPLES))
    write_table(folder / "validation.parquet", table(arithmetic.examples("validation", 1, 0), EXAMPLES))  # not asked
    outputs = ("state", "metrics", "rollouts", "generations", "checkpoint", "status")
    files = training.Files(
        spec=folder / "spec.json",
        model=model,
        train=folder / "examples.parquet",
        validation=folder / "validation.parquet",
        **{name: folder / name for name in outputs},
    )
    with training.opened("grpo", files, lambda settings, _: settings.n_grpo_steps) as run:
        yield run


def take_step(run: Any) -> list[Row]:
    """One rollout batch and its optimiser steps; the METRICS rows of the latter."""
    from stages.grpo import grpo_step

    rows = grpo_step(run)
    run.metrics += rows
    run.step += 1
    return rows


def about() -> Row:
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "transformers")} | {"python": sys.version.split()[0]}


def main(job_file: Path) -> None:
    blocks, job = Blocks(about()), json.loads(job_file.read_text())
    with grpo_run(job_file.parent, Path(job["model"]), job["values"], job["examples"]) as run:
        while steps := blocks.next():
            for _ in range(steps):
                take_step(run)
                rows = run.rollouts.fresh[-run.settings.rollout_batch_size :]
                blocks.record([row["reward"] for row in rows], [row["num_response_tokens"] for row in rows])
            run.rollouts.flush(run.step)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
