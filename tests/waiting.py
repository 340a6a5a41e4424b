"""Wait for something another process does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Return when `condition` holds; fail if the process ends before, or after a minute."""
    for _ in range(6000):
        if condition():
            return
        assert process.poll() is None, "the process ended before it could be stopped"
        time.sleep(0.01)
    raise AssertionError("waited for a minute in vain")
