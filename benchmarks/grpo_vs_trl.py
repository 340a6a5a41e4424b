"""One GRPO step, from prompts to new weights, against TRL's GRPOTrainer on the same CPU, policy and prompts.

python -m benchmarks.grpo_vs_trl --setup     once: TRL in an environment of its own
python -m benchmarks.grpo_vs_trl             the comparison
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.blocks import Block, Side, SideError, alternate, total

TRL = ("trl==1.16.0", "torch==2.13.0", "transformers==5.19.0")
VALUES: dict[str, Any] = {  # of config.Grpo: on-policy, 16 prompts x 8 rollouts, one optimiser step each
    "train": "train",
    "validation": "validation",
    "learning_rate": 3.0e-4,
    "rollout_batch_size": 128,
    "train_batch_size": 128,
    "group_size": 8,
    "gradient_accumulation_steps": 1,
    "sampling_max_tokens": 40,
    "sampling_batch_size": 128,
}
WARM_UP = 2  # steps that are not timed: first calls compile kernels, fill caches and start threads

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    model: Annotated[Path, typer.Option(help="Hugging Face folder of the policy")] = Path("results/models/base"),
    steps: Annotated[int, typer.Option(min=4, help="timed GRPO steps of each side")] = 40,
    block: Annotated[int, typer.Option(min=1, help="steps before the other side's turn")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="threads of each side")] = 2,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="learning curves: whole runs, from --seed on")] = 1,
    peer: Annotated[Path, typer.Option(help="TRL's virtual environment")] = Path(".bench/trl"),
    setup: Annotated[bool, typer.Option("--setup", help="make that environment (about 1.5 GB), then stop")] = False,
) -> None:
    """Time GRPO here and in TRL, in alternating blocks; prints one table, stores nothing.

    Both train the same policy on the same prompts in the same order: 16 prompts x 8 responses of up to 40 tokens,
    temperature 1, the same stop string, no KL term, AdamW at 3e-4, float32 on the CPU. Leave the machine idle.
    """
    if setup:
        make_environment(peer)
        return
    need(model / "config.json", "run `make demo` first, which makes results/models/base, or name another with --model")
    need(peer / "bin" / "python", "run `python -m benchmarks.grpo_vs_trl --setup` first")
    runs = []
    for number in range(seed, seed + seeds):
        with tempfile.TemporaryDirectory(prefix="grpo_vs_trl.") as name:
            job = Path(name) / "job.json"
            job.write_text(json.dumps(make_job(model, steps + WARM_UP, number)))
            try:
                *sides, abouts = compare(job, peer, steps, block, threads)
            except SideError as error:
                raise SystemExit(f"error: {error}") from None
            runs.append(sides)
    ladder, trl = zip(*runs, strict=True)
    Console().print(report(ladder, trl, abouts, threads))


def need(path: Path, remedy: str) -> None:
    if not path.exists():
        raise SystemExit(f"error: {path}: no such file; {remedy}")


def make_environment(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *TRL], check=True)


def make_job(model: Path, steps: int, seed: int) -> dict[str, Any]:
    """What both sides read: the settings, the examples, and the prompts in the order in which they are drawn here."""
    from stages.config import Grpo
    from stages.examples import batch_of
    from stages.tasks.arithmetic import examples
    from stages.tasks.prompts import render

    settings = Grpo(**VALUES, n_grpo_steps=steps, seed=seed)
    rows = examples("train", 4096, seed)
    drawn = [row for step in range(steps) for row in batch_of(rows, settings.n_prompts_per_rollout_batch, step, seed)]
    stream = [
        {"prompt": render(settings.prompt, question=row["question"]), "answer": row["ground_truth"]} for row in drawn
    ]
    values = settings.model_dump(mode="json")
    return {"model": str(model.resolve()), "values": values, "examples": rows, "stream": stream}


def compare(
    job: Path, peer: Path, steps: int, block: int, threads: int
) -> tuple[list[Block], list[Block], list[dict[str, str]]]:
    """Timed blocks of this project and of TRL, and the versions of both."""
    sides: list[Side] = []
    try:
        for name, python in (("ladder", sys.executable), ("trl", peer.absolute() / "bin" / "python")):
            sides.append(Side(name, [python, "-m", f"benchmarks.{name}_peer", job], job.parent, threads))
        for side in sides:
            side.run(WARM_UP)
        ladder, trl = alternate(sides, steps, block)
    finally:
        for side in sides:
            side.close()
    return ladder, trl, [side.about for side in sides]


def report(
    ladder: Sequence[list[Block]], trl: Sequence[list[Block]], abouts: list[dict[str, str]], threads: int
) -> Table:
    """Rows of what was measured; the last column is above 1 x, or above 0, where this project is ahead.

    `ladder` and `trl` hold the blocks of each seed. Rewards are means over the seeds, with the smallest and largest.
    """
    ours, theirs = (total([block for blocks in side for block in blocks]) for side in (ladder, trl))
    table = Table(title=f"GRPO, 16 prompts x 8 responses of up to 40 tokens, CPU, {threads} threads")
    table.add_column()
    for column in ("Ladder", "TRL", "Ladder is ahead by"):
        table.add_column(column, justify="right")
    for label, amount in (("seconds per step", "seconds"), ("CPU seconds per step", "cpu_seconds")):
        a, b = (getattr(side, amount) / side.steps for side in (ours, theirs))
        table.add_row(label, f"{a:.3f}", f"{b:.3f}", f"{b / a:.2f} x")
    for label, amount in (("samples per second", "samples"), ("response tokens per second", "tokens")):
        a, b = (getattr(side, amount) / side.seconds for side in (ours, theirs))
        table.add_row(label, f"{a:.0f}", f"{b:.0f}", f"{a / b:.2f} x")
    for label, part in quarters(ours.steps // len(ladder)):
        a, b = ([mean(total(blocks).rewards[part]) for blocks in side] for side in (ladder, trl))
        table.add_row(f"training reward, steps {label}", spread(a), spread(b), f"{mean(a) - mean(b):+.3f}")
    ratios = [b.seconds / a.seconds for a, b in zip(chain(*ladder), chain(*trl), strict=True)]
    versions = [" ".join(f"{name} {version}" for name, version in about.items()) for about in abouts]
    table.caption = (
        f"{ours.steps} steps each over {len(ladder)} seed(s), in {len(ratios)} alternating pairs of blocks: ratio "
        f"{min(ratios):.2f} to {max(ratios):.2f}\nLadder: {versions[0]}\nTRL: {versions[1]}"
    )
    return table


def spread(values: Sequence[float]) -> str:
    """The mean, and the range where there is more than one."""
    around = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"{mean(values):.3f}{around}"


def quarters(steps: int) -> list[tuple[str, slice]]:
    """The four quarters of `steps` steps, as labels counted from 1 and as slices."""
    ends = [steps * quarter // 4 for quarter in range(5)]
    return [(f"{start + 1}-{end}", slice(start, end)) for start, end in pairwise(ends)]


if __name__ == "__main__":
    app()
