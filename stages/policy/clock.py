"""Where the seconds of a step go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """`with clock("train"): …` adds to the METRICS column `seconds_train`."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.spent[phase] = self.spent.get(phase, 0.0) + time.monotonic() - began

    def columns(self) -> dict[str, float]:
        return {f"seconds_{phase}": seconds for phase, seconds in self.spent.items()}

    def total(self) -> float:
        return time.monotonic() - self.began
