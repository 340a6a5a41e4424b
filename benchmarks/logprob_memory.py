"""Peak memory of scoring with gradients: the textbook's dense logits against this project's chunked head.

python -m benchmarks.logprob_memory

The sizes are those of a known memory trouble: a small body under a large vocabulary, where logits dwarf all else.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1.0e-5
LIMIT = 0.25
Sizes = dict[str, int]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[int, typer.Option(min=1, help="sequences B")] = 2,
    tokens: Annotated[int, typer.Option(min=2, help="tokens T scored in each")] = 256,
    vocabulary: Annotated[int, typer.Option(min=2, help="vocabulary V")] = 151_665,
    hidden: Annotated[int, typer.Option(min=8, help="width H of the two-layer body, a multiple of 8")] = 64,
) -> None:
    """Forward and backward through both paths, each in a fresh process; prints one table, stores nothing.

    The peak is what memory grew by over the loaded model. Fails if values or gradients differ by more than 1e-5, or if
    the chunked path needs more than a quarter of the dense path's peak.
    """
    sizes = {"rows": rows, "tokens": tokens, "vocabulary": vocabulary, "hidden": hidden}
    with tempfile.TemporaryDirectory(prefix="logprob_memory.") as name:
        peaks = {path: in_fresh_process(path, sizes, Path(name)) for path in PATHS}
        gaps = differences(*(Path(name) / f"{path}.safetensors" for path in PATHS))
    ratio = peaks["chunked"] / peaks["dense"]
    Console().print(report(sizes, peaks, gaps))
    if max(gaps.values()) > TOLERANCE or ratio > LIMIT:
        raise SystemExit(1)


def in_fresh_process(path: str, sizes: Sizes, folder: Path) -> int:
    """Peak growth in bytes of one path, which leaves values and gradients as `<path>.safetensors` in `folder`."""
    job = json.dumps({"path": path, "sizes": sizes, "folder": str(folder)})
    command = [sys.executable, "-c", f"from benchmarks.logprob_memory import child; child({job!r})"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.split()[-1])


def child(job: str) -> None:
    """Measure one path in this process, which must do nothing else."""
    import torch
    from safetensors.torch import save_file

    path, sizes, folder = json.loads(job).values()
    torch.manual_seed(0)
    model = make_model(sizes)
    ids = torch.randint(sizes["vocabulary"], (sizes["rows"], sizes["tokens"] + 1))
    PATHS[path](model, ids[:, :3]).sum().backward()  # libraries allocate their own buffers at the first call
    model.zero_grad(set_to_none=True)
    before = reset_peak()
    log_probs = PATHS[path](model, ids)
    log_probs.mean().backward()
    grown = peak() - before
    gradients = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    save_file({"log_probs": log_probs.detach().contiguous(), **gradients}, Path(folder) / f"{path}.safetensors")
    print(grown)


def make_model(sizes: Sizes) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    hidden = sizes["hidden"]
    config = Qwen2Config(
        vocab_size=sizes["vocabulary"],
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=sizes["tokens"] + 1,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config).eval()


def dense(model: Any, ids: Any) -> Any:
    """Log-probs [B, T] of `ids` [B, T + 1] after the first: logits of every position, log-softmax, gather."""
    logits = model(ids[:, :-1], use_cache=False).logits
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]


def chunked(model: Any, ids: Any) -> Any:
    """The same by the product's `score`: the first token as the prompt, the others as the response to it."""
    import torch

    from stages.policy.scoring import Sequences, score

    lengths = torch.ones(len(ids), dtype=torch.long)
    batch = Sequences(ids[:, :1], lengths, ids[:, 1:], torch.ones_like(ids[:, 1:], dtype=torch.bool))
    return score(model, batch, temperature=1.0, shared=True)[0]


PATHS = {"dense": dense, "chunked": chunked}


def reset_peak() -> int:
    """Memory in use now, in bytes, from which `peak` counts on. Linux forgets its old peak; elsewhere that stays."""
    if Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """The highest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def differences(left: Path, right: Path) -> dict[str, float]:
    """The largest absolute difference of log-probs, and of all gradients relative to the largest one."""
    from safetensors.torch import load_file

    one, two = load_file(left), load_file(right)
    apart = {name: (one[name] - two[name]).abs().max().item() for name in one}
    scale = max(tensor.abs().max().item() for name, tensor in one.items() if name != "log_probs")
    gradient = max(value for name, value in apart.items() if name != "log_probs")
    return {"log-probs": apart["log_probs"], "gradients": gradient / scale}


def report(sizes: Sizes, peaks: dict[str, int], gaps: dict[str, float]) -> Table:
    from importlib.metadata import version

    shape = f"B={sizes['rows']}, T={sizes['tokens']}, V={sizes['vocabulary']:,}, H={sizes['hidden']}"
    table = Table(title=f"Peak memory of forward and backward, {shape}, float32")
    table.add_column("path")
    for column in ("peak over loaded model", "of dense"):
        table.add_column(column, justify="right")
    for path, grown in peaks.items():
        table.add_row(path, f"{grown / 1e6:.0f} MB", f"{grown / peaks['dense']:.2f}")
    table.caption = (
        f"largest difference: log-probs {gaps['log-probs']:.1e} nats, gradients {gaps['gradients']:.1e} of the largest "
        f"(limit {TOLERANCE:.0e})\ntorch {version('torch')}, transformers {version('transformers')}"
    )
    return table


if __name__ == "__main__":
    app()
