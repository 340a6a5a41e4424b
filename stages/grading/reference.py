"""Grading with the public grader of the course: a file of the user's, in processes of its own, never in this one.

It is opt-in and never shipped: it reads text of the policy with sympy, and it is what that course's accuracy board
counts. Nothing in training asks it.
"""

import ast
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue

from stages.grading.pool import Worker

FUNCTIONS = {"r1_zero": "r1_zero_reward_fn", "question_only": "question_only_reward_fn"}  # of the file, by reward


@dataclass(frozen=True)
class Graded:
    """Rewards of one response; all 0 where the grader gave none, and `fault` says why."""

    format_reward: float
    answer_reward: float
    reward: float
    fault: str = ""


class UnusableGrader(ValueError):
    """A file that cannot grade. The message names it."""


def fault(file: str | Path) -> str | None:
    """What is wrong with a file as far as reading tells, without running it: it must define a function of FUNCTIONS."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        return f"there is no file {file} to read ({error.strerror})"
    except (SyntaxError, ValueError) as error:
        return f"{file} is no Python file ({error!s:.100})"
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = sorted(set(FUNCTIONS.values()) - names)
    return f"{file} defines no function {' and no '.join(missing)}" if len(missing) == len(FUNCTIONS) else None


def grade(
    file: str | Path,
    pairs: Sequence[tuple[str, str]],
    reward: str,
    workers: int = 1,
    wall_seconds: float = 60.0,
    memory_mb: int = 4096,
    cpu_seconds: int = 20,
) -> list[Graded]:
    """Rewards of (response, ground truth) pairs, in order. A response on which the grader hangs, raises, exits, dies or
    asks for too much memory gets 0, with the reason. UnusableGrader where it cannot be loaded at all."""
    if reward not in FUNCTIONS:
        raise UnusableGrader(f"{file} grades {' and '.join(FUNCTIONS)}, not responses under reward {reward}")
    module = ("-P", "-m", "stages.grading.reference_worker")
    limits = (str(memory_mb), str(cpu_seconds))
    command = [sys.executable, *module, str(Path(file).resolve()), FUNCTIONS[reward], *limits]
    idle: LifoQueue[Worker] = LifoQueue()
    all_workers = [Worker(command) for _ in range(workers)]
    for worker in all_workers:
        idle.put(worker)

    def one(pair: tuple[str, str]) -> Graded:
        worker = idle.get()
        try:
            return _ask(worker, pair, wall_seconds)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(workers, thread_name_prefix="reference") as threads:
            return list(threads.map(one, pairs))
    except (RuntimeError, UnusableGrader) as error:
        raise UnusableGrader(f"{file} cannot be used to grade: {error}") from None
    finally:
        for worker in all_workers:
            worker.stop()


def _ask(worker: Worker, pair: tuple[str, str], wall_seconds: float) -> Graded:
    try:
        reply = worker.ask({"response": pair[0], "ground_truth": pair[1]}, wall_seconds)
    except TimeoutError as error:
        return Graded(0.0, 0.0, 0.0, str(error))
    if reply is None:
        return Graded(0.0, 0.0, 0.0, "the grading process ended")
    if "unusable" in reply:
        raise UnusableGrader(reply["unusable"])
    return Graded(**reply["rewards"]) if "rewards" in reply else Graded(0.0, 0.0, 0.0, reply["fault"])


def faults(graded: Sequence[Graded]) -> dict[str, int]:
    """Reason -> how many responses it kept from being graded, most frequent first."""
    return dict(Counter(one.fault for one in graded if one.fault).most_common())
