"""Wait for something another process does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Return when `condition` holds; fail if the process ends before. The bound only keeps a process that hangs from
    hanging the tests: a busy machine may take minutes over what takes seconds."""
    bound = time.monotonic() + 900
    while not condition():
        assert process.poll() is None, "the process ended before it could be stopped"
        assert time.monotonic() < bound, "waited for a quarter of an hour in vain"
        time.sleep(0.01)
