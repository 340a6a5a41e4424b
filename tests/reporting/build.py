"""Small result folders written by hand-made rows: what the stages would leave behind, in milliseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stages import records
from stages.records import METRICS, ROLLOUTS
from stages.store import provenance, write_json

PROMPT = "A conversation between User and Assistant.\nUser: What is 2 + {n}?\nAssistant: <think>"


def validation(step: int, answer: float, **more: Any) -> dict[str, Any]:
    row = {"step": step, "kind": "validation", "seconds": 2.0 * step, "num_examples": 100}
    return row | {"answer_reward": answer, "format_reward": min(1.0, answer + 0.1)} | more


def train(step: int, reward: float, **more: Any) -> dict[str, Any]:
    row = {"step": step, "kind": "train", "seconds": 2.0 * step, "num_examples": 16 * step, "reward": reward}
    row |= {"token_entropy": 1.0 / (1 + step), "gradient_norm": 0.5, "zero_variance_groups": 0.25}
    return row | {"length": 40.0, "length_correct": 38.0, "length_incorrect": 44.0} | more


def rollout(example: str = "q0", step: int = 0, verdict: str | None = "correct", **more: Any) -> dict[str, Any]:
    """One sampled response whose text fits its verdict."""
    response = {
        "correct": " 2 and 2 make 4. </think> <answer> 4 </answer>",
        "wrong": " 2 and 2 make 5. </think> <answer> 5 </answer>",
    }.get(verdict or "", " 2 and 2 make 4. </think>\n<answer> 4 </answer>")
    graded = None if verdict is None else float(verdict == "correct")
    form = None if verdict is None else float(verdict in ("correct", "wrong"))
    row = {"example_id": example, "step": step, "sample_index": 0, "prompt": PROMPT.format(n=2), "response": response}
    row |= {"prompt_token_ids": [1, 2], "response_token_ids": [3, 4], "sampler_log_probs": [-0.5, -0.25]}
    row |= {"finish_reason": "stop", "ground_truth": "4", "num_response_tokens": 2, "seed": 0, "model": "base"}
    row |= {"verdict": verdict, "answer_reward": graded, "format_reward": form, "reward": graded, "run": "hand-made"}
    return row | more


def write_run(
    folder: Path,
    values: dict[str, Any],
    metrics: list[dict[str, Any]],
    generations: list[dict[str, Any]] | None = None,
    status: str = "finished",
    reason: str = "",
) -> Path:
    """A run folder: status.json, metrics.parquet, generations.parquet."""
    facts = provenance({"stage": "grpo", "name": folder.name, "code": "c0de", "values": values})
    records.write_table(folder / "metrics.parquet", records.table(metrics, METRICS), facts)
    rows = [rollout(step=0, verdict="wrong"), rollout(step=10)] if generations is None else generations
    records.write_table(folder / "generations.parquet", records.table(rows, ROLLOUTS), facts)
    last = metrics[-1] if metrics else {"step": 0, "seconds": 0.0}
    body = {"status": status, "reason": reason, "steps": last["step"], "seconds": last["seconds"], "values": values}
    write_json(folder / "status.json", body | {"gpus": 2, "cores": 8})
    return folder


def write_evaluation(folder: Path, rows: list[dict[str, Any]], name: str = "zero_shot") -> dict[str, Any]:
    """An evaluation folder; returns its entry in the report's specification."""
    facts = provenance({"stage": "grade", "name": name, "code": "c0de"})
    verdicts = [row["verdict"] for row in rows]
    metric = validation(0, verdicts.count("correct") / max(1, len(rows)), seconds=3.0, num_examples=len(rows))
    metric |= {"seconds_sample": 2.0, "examples_per_second": len(rows) / 2.0}
    records.write_table(folder / "metrics.parquet", records.table([metric], METRICS), facts)
    for file in ("rollouts.parquet", "graded.parquet"):
        records.write_table(folder / file, records.table(rows, ROLLOUTS), facts)
    paths = {key: str(folder / f"{key}.parquet") for key in ("rollouts", "graded", "metrics")}
    return {"dataset": "arithmetic", "prompt": "r1_zero", "model": "base", **paths}


EXPERIMENT = {
    "stage": "grpo",
    "seeds": [0, 1],
    "fixed": {},
    "grid": {"learning_rate": [1e-3, 3e-4]},
    "cases": [],
    "description": "How fast can it go?",
}


def write_experiment(folder: Path, name: str = "lr_sweep") -> tuple[Path, list[Path]]:
    """Two learning rates, two seeds each; the larger one diverges with seed 1. Returns spec file and run folders."""
    planned, folders = {}, []
    for rate, slope in ((1e-3, 0.02), (3e-4, 0.05)):
        for seed in (0, 1):
            broken = rate == 1e-3 and seed == 1
            rows = [validation(step, 0.2 + slope * step + 0.02 * seed) for step in range(0, 5 if broken else 11, 2)]
            rows += [train(step, 0.2 + slope * step) for step in range(1, rows[-1]["step"] + 1)]
            path = f"{name}/learning_rate={rate}/seed={seed}"
            planned[path] = values = {
                "learning_rate": rate,
                "seed": seed,
                "prompt": "r1_zero",
                "validation": "held_out",
            }
            state = {"status": "diverged", "reason": "gradient norm is not finite"} if broken else {}
            folders.append(write_run(folder / "runs" / path, values, sorted(rows, key=lambda r: r["step"]), **state))
    spec = {"stage": "summarize", "name": name, "code": "c0de", "experiment": EXPERIMENT, "runs": planned}
    file = folder / f"{name}.spec.json"
    write_json(file, spec)
    return file, folders


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
