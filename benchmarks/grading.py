"""Grades the same pairs with several graders and prints one table.

    python benchmarks/grading.py [--reference path/to/drgrpo_grader.py] [--pairs 1000]

The mix is that of a training run: 60 % integers (half of them wrong), 40 % pairs from the test cases; the cases alone
give the columns on correctness. Every grader runs in a child process of its own with the same memory limit; CPU time is
taken inside, and a pair that takes longer than --limit seconds of wall-clock time is counted as a hang and the child
started anew. `--reference` loads a grader with a function `grade(answer, gold)` from a file.
"""

import argparse
import importlib.util
import json
import random
import resource
import select
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "grading" / "cases" / "equivalence.json"
MEMORY_BYTES = 4 << 30


def load_ours(reference: str | None) -> Callable[[str, str], bool]:
    sys.path.insert(0, str(ROOT))
    from stages.grading import r1_zero_reward_fn

    return lambda gold, answer: r1_zero_reward_fn(f"</think> <answer> {answer} </answer>", gold)["reward"] == 1.0


def load_math_verify(reference: str | None) -> Callable[[str, str], bool]:
    from math_verify import parse, verify

    return lambda gold, answer: bool(verify(parse(f"${gold}$"), parse(f"${answer}$")))


def load_reference(reference: str) -> Callable[[str, str], bool]:
    spec = importlib.util.spec_from_file_location("reference_grader", reference)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda gold, answer: bool(module.grade(answer, gold, True))


GRADERS = {"stages.grading": load_ours, "math-verify": load_math_verify, "reference": load_reference}


def serve(name: str, reference: str | None) -> None:
    """Child process: a JSON pair a line in, `[accepted, CPU seconds]` a line out."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    grade = GRADERS[name](reference)
    grade(r"\sqrt{2}", "2^{1/2}")  # imports and first-use costs stay out of the table
    print("ready", flush=True)
    for line in sys.stdin:
        gold, answer = json.loads(line)
        before = time.process_time()
        try:
            accepted = grade(gold, answer)
        except Exception:
            accepted = None
        print(json.dumps([accepted, time.process_time() - before]), flush=True)


class Child:
    """A grader in its own process; `ask` returns (accepted, CPU seconds), or None for a hang or a crash."""

    def __init__(self, name: str, reference: str | None, limit: float):
        self.command = [
            sys.executable,
            __file__,
            "--child",
            name,
            *(["--reference", reference] if reference else []),
        ]
        self.limit = limit
        self.process: subprocess.Popen | None = None

    def ask(self, gold: str, answer: str) -> tuple[bool | None, float] | None:
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if self.process.stdout.readline().strip() != b"ready":
                raise SystemExit(f"the grader did not start: {' '.join(self.command)}")
        self.process.stdin.write(json.dumps([gold, answer]).encode() + b"\n")
        self.process.stdin.flush()
        if select.select([self.process.stdout], [], [], self.limit)[0]:
            line = self.process.stdout.readline()
            if line:
                return tuple(json.loads(line))
        self.close()
        return None

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Tally:
    """What one grader did; seconds of CPU time, a hang counting as its limit."""

    seconds: list[float] = field(default_factory=list)
    hangs: int = 0
    errors: int = 0
    right: int = 0
    false_positives: int = 0
    slowest_case: float = 0.0


def measure(child: Child, mix: list[dict], cases: list[dict]) -> Tally:
    tally = Tally()
    for pair in mix:
        reply = child.ask(pair["gold"], pair["answer"])
        tally.seconds.append(child.limit if reply is None else reply[1])
    for case in cases:
        reply = child.ask(case["gold"], case["answer"])
        accepted = reply is not None and reply[0] is True
        tally.hangs += reply is None
        tally.errors += reply is not None and reply[0] is None
        tally.right += accepted == case["right"] and reply is not None
        tally.false_positives += accepted and not case["right"]
        tally.slowest_case = max(tally.slowest_case, child.limit if reply is None else reply[1])
    child.close()
    return tally


def training_mix(cases: list[dict], pairs: int, seed: int) -> list[dict]:
    rng = random.Random(seed)
    mix = []
    for _ in range(pairs):
        if rng.random() < 0.6:
            gold = rng.randint(-50, 2_000)
            mix.append({"gold": str(gold), "answer": str(gold if rng.random() < 0.5 else rng.randint(-50, 2_000))})
        else:
            mix.append(rng.choice(cases))
    return mix


def row(name: str, tally: Tally, cases: int) -> str:
    seconds = sorted(tally.seconds)
    mean = 1000 * sum(seconds) / len(seconds)
    p99 = 1000 * seconds[int(0.99 * (len(seconds) - 1))]
    return (
        f"{name:<16}{mean:>10.3f}{1000 * seconds[len(seconds) // 2]:>10.3f}{p99:>10.3f}{1000 * seconds[-1]:>11.1f}"
        f"{100 * tally.right / cases:>9.1f}{tally.false_positives:>8}{tally.hangs:>7}{tally.errors:>8}"
        f"{1000 * tally.slowest_case:>14.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="path of a reference grader with a function grade(answer, gold, fast)")
    parser.add_argument("--pairs", type=int, default=1000, help="size of the training mix")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=10.0, help="wall-clock seconds after which a pair is a hang")
    parser.add_argument("--child", choices=GRADERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        serve(arguments.child, arguments.reference)
    else:
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    cases = json.loads(CASES.read_text())
    mix = training_mix([case for case in cases if case["kind"] != "hostile"], arguments.pairs, arguments.seed)
    print(f"{len(mix)} pairs of the mix (milliseconds of CPU time), {len(cases)} test cases, one process each")
    print(
        f"{'grader':<16}{'mean':>10}{'median':>10}{'p99':>10}{'max':>11}"
        f"{'right %':>9}{'false +':>8}{'hangs':>7}{'errors':>8}{'slowest case':>14}"
    )
    for name in GRADERS:
        if name == "reference" and arguments.reference is None:
            continue
        child = Child(name, arguments.reference if name == "reference" else None, arguments.limit)
        print(row(name, measure(child, mix, cases), len(cases)), flush=True)


if __name__ == "__main__":
    main()
