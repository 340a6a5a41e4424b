"""Stands in for a program that needs torch: same command line, real row schemas, nothing learned.

The score of a training run is its learning rate times 100, so that a test decides which run wins by editing the config.
The tests put this file in the place of the program and add the program's own imports, which its fingerprint follows.
"""

import json
import os
import sys
from pathlib import Path

from stages import console, records
from stages.measure import validation_metrics
from stages.store import new_directory, provenance, write_json
from stages.strict import read_spec


def options(words):
    """`--key value` pairs; `--winners` may come several times."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    found = {key.removeprefix("--"): value for key, value in pairs}
    found["winners"] = [value for key, value in pairs if key == "--winners"]
    return found


def rollout(example, step, spec, verdict):
    right = float(verdict == "correct")
    answer = example["ground_truth"] if right else "none"
    return {
        "example_id": example["example_id"],
        "step": step,
        "sample_index": 0,
        "prompt": example["question"],
        "response": f"a step </think> <answer>{answer}</answer>",
        "prompt_token_ids": [1, 2],
        "response_token_ids": [3, 4],
        "sampler_log_probs": [-1.0, -1.0],
        "finish_reason": "stop",
        "ground_truth": example["ground_truth"],
        "format_reward": 1.0,
        "answer_reward": right,
        "reward": right,
        "verdict": verdict,
        "num_response_tokens": 2,
        "seed": spec["values"].get("seed", 0),
        "model": "base",
        "run": spec["name"],
    }


def policy(folder):
    with new_directory(Path(folder)) as new:
        (new / "config.json").write_text("{}")


def write(path, rows, schema, spec):
    records.write_table(Path(path), records.table(rows, schema), provenance(spec))


def base_model(spec, files):
    policy(files["model"])
    row = {"step": 1, "kind": "train", "seconds": 1.0, "loss": 1.0, "learning_rate": 1.0}
    write(files["metrics"], [row], records.METRICS, spec)


def sample(spec, files):
    examples = records.read_table(Path(files["data"]), records.EXAMPLES).to_pylist()
    size = spec["values"]["group_size"] if "round" in spec else 1
    rows = [rollout(example, 0, spec, "correct") | {"sample_index": i} for example in examples for i in range(size)]
    ungraded = [row | dict.fromkeys(("format_reward", "answer_reward", "reward", "verdict")) for row in rows]
    write(files["rollouts"], ungraded, records.ROLLOUTS, spec)


def train(spec, files):
    winners = {Path(path).stem: json.loads(Path(path).read_text())["values"] for path in files["winners"]}
    inherited = {key: winners[source][key] for key, source in spec["inherit"].items()}
    values = {**spec["values"], **inherited}
    examples = records.read_table(Path(files["validation"]), records.EXAMPLES).to_pylist()
    right = round(len(examples) * min(1.0, 100 * values["learning_rate"]))
    generations, metrics = [], []
    for step in (0, 1) if spec.get("round", 1) == 1 else (1,):
        rows = [rollout(one, step, spec, "correct" if i < right * step else "wrong") for i, one in enumerate(examples)]
        generations += rows
        metrics.append(validation_metrics(rows, step, float(step)))
    write(files["generations"], generations, records.ROLLOUTS, spec)
    write(files["metrics"], metrics, records.METRICS, spec)
    if "rollouts" in files:
        write(files["rollouts"], generations, records.ROLLOUTS, spec)
    policy(files["checkpoint"])
    status = {"status": "finished", "reason": "", "steps": 1, "seconds": 1.0, "values": values}
    write_json(Path(files["status"]), status)


def main():
    files = options(sys.argv[1:])
    spec = read_spec(Path(files["spec"]))
    console.say(f"threads {os.environ['OMP_NUM_THREADS']} {os.environ['MKL_NUM_THREADS']}")
    {"base_model": base_model, "sample": sample, "sft": train, "grpo": train}[spec["stage"]](spec, files)


if __name__ == "__main__":
    console.run(main)
