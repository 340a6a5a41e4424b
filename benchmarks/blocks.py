"""Two programs compared fairly on one machine: both stay alive, and take their steps in turns.

A machine's speed drifts (heat, neighbours), so timing one program and then the other compares the machine with itself.
Here each side is a subprocess that takes a block of steps when told and sleeps while the other side works. The order
turns round after each pair of blocks (A B, B A, …), so that a steady drift cancels. Imports the standard library alone:
the far end runs in any environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]  # programs are started as `-m benchmarks.<name>`


class SideError(RuntimeError):
    """One side of a comparison failed. The message says which, and ends with what it printed."""


@dataclass
class Block:
    """What one block of steps took and gave. Times in seconds, CPU time of all threads; rewards are means of a step."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    samples: int = 0
    tokens: int = 0
    rewards: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.rewards)


def total(blocks: Sequence[Block]) -> Block:
    return Block(
        seconds=sum(block.seconds for block in blocks),
        cpu_seconds=sum(block.cpu_seconds for block in blocks),
        samples=sum(block.samples for block in blocks),
        tokens=sum(block.tokens for block in blocks),
        rewards=[reward for block in blocks for reward in block.rewards],
    )


class Side:
    """The near end: a subprocess that has made everything ready and waits for its first block."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, threads: int) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        environment = os.environ | {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(self._log, "w"),
            text=True,
            env=environment,
            cwd=ROOT,
        )
        self.about: dict[str, str] = self._read()

    def run(self, steps: int) -> Block:
        """Let it take `steps` steps, and wait."""
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return Block(**self._read())

    def close(self) -> None:
        """End of input is how a side learns that there is no further block."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            tail = "\n".join(self._log.read_text().splitlines()[-15:])
            raise SideError(f"{self.name} ended with status {self._process.wait()}; it printed\n{tail}")
        return json.loads(line)


class Blocks:
    """The far end. Made first, so that whatever a library prints to standard output goes to the log from then on."""

    def __init__(self, about: dict[str, str]) -> None:
        """`about` names versions; it is sent once everything is ready, at the first `next`."""
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._block, self._report = Block(), about

    def next(self) -> int:
        """Tell what the last block did, wait for the next; its number of steps, 0 when there is none."""
        if self._block.steps:
            self._block.seconds = time.perf_counter() - self._began
            self._block.cpu_seconds = time.process_time() - self._cpu_began
            self._report = asdict(self._block)
        self._out.write(json.dumps(self._report) + "\n")
        self._out.flush()
        steps = int(sys.stdin.readline() or 0)
        self._block = Block()
        self._began, self._cpu_began = time.perf_counter(), time.process_time()
        return steps

    def record(self, rewards: Sequence[float], lengths: Sequence[int]) -> None:
        """One step was taken: the rewards and lengths (tokens) of the responses it sampled."""
        self._block.samples += len(rewards)
        self._block.tokens += sum(lengths)
        self._block.rewards.append(sum(rewards) / len(rewards))


def alternate(sides: Sequence[Side], steps: int, block: int) -> list[list[Block]]:
    """Blocks of each side, in order: `steps` steps altogether, `block` at a time."""
    done: list[list[Block]] = [[] for _ in sides]
    for number, start in enumerate(range(0, steps, block)):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for index in order:
            done[index].append(sides[index].run(min(block, steps - start)))
    return done
