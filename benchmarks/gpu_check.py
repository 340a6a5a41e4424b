"""What training and sampling cost on this device, at the shape of Qwen2.5-1.5B with random weights.

benchmarks/gpu_check.sh, or python -m benchmarks.gpu_check
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Row = dict[str, Any]
# Dense bfloat16 products, tera-operations per second, from the makers' data sheets. The first name that is part of the
# device's counts.
PEAKS = {
    "H100 PCIe": 756,
    "H100 NVL": 835,
    "H100": 989,
    "H200": 989,
    "GH200": 989,
    "B200": 2250,
    "A100": 312,
    "L40S": 362,
    "L4": 121,
    "A10": 125,
    "RTX 4090": 165,
}
TITLES = {
    "train": "One optimiser step, bfloat16, {group} responses of {response} tokens to a prompt of {prompt}",
    "engines": "Sampling {rollouts} responses of {sampled} tokens, bfloat16",
    "grpo": "One GRPO step, Transformers engine, {rollouts} responses of {sampled} tokens",
    "padding": "Forward and backward over {documents} documents of unequal length",
    "vllm_asleep": "The same sampling by vLLM, which has the GPU in turns with the trainer",
    "vllm_inside": "The same sampling by vLLM, which shares the GPU with the trainer",
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    self_check: Annotated[bool, typer.Option("--self-check", help="a tiny shape, on any device")] = False,
    part: Annotated[list[str] | None, typer.Option(help=f"one of {', '.join(TITLES)}; repeatable; default all")] = None,
    out: Annotated[Path, typer.Option(help="JSON file to write")] = Path("results/gpu_check.json"),
) -> None:
    """Measure, print tables with the device's name, write them as JSON after every part.

    A part that fails is named, the others still run, and the exit status is 1. Leave the device to this alone.
    """
    import torch

    from benchmarks.gpu_parts import PARTS
    from benchmarks.gpu_subject import REAL, SMALL, make_policy

    if not (self_check or torch.cuda.is_available()):
        raise SystemExit("error: no GPU that PyTorch can use; --self-check runs the same code at a tiny shape")
    sizes = SMALL if self_check else REAL
    report = {"device": device(), "versions": versions(), "sizes": vars(sizes), "parts": {}, "failed": {}}
    report["peak_tflops"] = peak(report["device"])
    Console().print(
        f"{report['device']}, " + ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    )
    with tempfile.TemporaryDirectory(prefix="gpu_check.") as name:
        make_policy(sizes, Path(name))
        for key in part or PARTS:
            began = time.monotonic()
            try:
                report["parts"][key] = list(PARTS[key](sizes, Path(name)))
                Console().print(table(key, report), f"({time.monotonic() - began:.0f} s)")
            except Exception as error:
                traceback.print_exc()
                report["failed"][key] = f"{type(error).__name__}: {error}"
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(report, indent=1) + "\n")
    Console().print(f"written: {out}", markup=False)
    if report["failed"]:
        raise SystemExit(f"failed: {report['failed']}")


def device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"


def versions() -> dict[str, str]:
    import torch

    found = {name: version(name) for name in ("torch", "transformers")}
    return found | ({"CUDA": torch.version.cuda} if torch.version.cuda else {})


def peak(name: str) -> float | None:
    """The device's peak in tera-operations per second, None if it is not known here."""
    return next((value for part, value in PEAKS.items() if part in name), None)


def utilisation(row: Row, peak_tflops: float | None) -> str:
    """Model FLOPs utilisation: what the path cannot do without, over what the device could do in the same time."""
    if peak_tflops is None:
        return "peak unknown"
    return f"{row['flops'] / row['seconds'] / (peak_tflops * 1e12):.1%}"


def table(key: str, report: Row) -> Table:
    made = Table(title=f"{TITLES[key].format(**report['sizes'])}: {report['device']}")
    rows = report["parts"][key]
    names = COLUMNS[key]
    for name in names:
        made.add_column(name, justify="left" if name == names[0] else "right")
    for row in rows:
        made.add_row(*CELLS[key](row, report))
    return made


def train_cells(row: Row, report: Row) -> Sequence[str]:
    if row["seconds"] is None:
        return (row["path"], row["note"], "", "", "")
    responses = report["sizes"]["group"] * report["sizes"]["response"]
    memory = "-" if row["gib"] is None else f"{row['gib']:.1f}"
    speed = f"{responses / row['seconds']:,.0f}"
    return row["path"], f"{row['seconds']:.3f}", speed, memory, utilisation(row, report["peak_tflops"])


def engine_cells(row: Row, report: Row) -> Sequence[str]:
    if "note" in row:
        return (row["engine"], row["note"], "", "", "")
    speed, synced = f"{row['tokens_per_second']:,.0f}", f"{row['sync_seconds']:.3f}"
    return row["engine"], f"{row['seconds']:.2f}", speed, synced, f"{row['gap']:.3f}"


def phase_cells(row: Row, report: Row) -> Sequence[str]:
    total = sum(each["seconds"] or 0.0 for each in report["parts"]["grpo"])
    return row["phase"], f"{row['seconds'] or 0.0:.3f}", f"{(row['seconds'] or 0.0) / total:.0%}"


def padding_cells(row: Row, report: Row) -> Sequence[str]:
    return row["layout"], f"{row['tokens_per_second']:,.0f}", f"{row['padding']:.0%}"


ENGINE_COLUMNS = ("engine", "seconds", "tokens/s", "weight sync, s", "gap to the trainer, nats")
COLUMNS = {
    "train": ("path", "seconds", "response tokens/s", "peak GiB", "MFU"),
    "engines": ENGINE_COLUMNS,
    "grpo": ("phase", "seconds", "share"),
    "padding": ("layout", "real tokens/s", "padding"),
    "vllm_asleep": ENGINE_COLUMNS,
    "vllm_inside": ENGINE_COLUMNS,
}
CELLS = {
    "train": train_cells,
    "engines": engine_cells,
    "grpo": phase_cells,
    "padding": padding_cells,
    "vllm_asleep": engine_cells,
    "vllm_inside": engine_cells,
}


if __name__ == "__main__":
    app()
