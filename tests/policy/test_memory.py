"""Memory that was freed is there for the next step without the kernel."""

from __future__ import annotations

import platform
import subprocess
import sys

# Takes 128 MiB in blocks of 16 MiB, frees them, takes them again; prints how many pages the second time brought.
PROGRAM = """
import resource
from stages.policy import memory
def take():
    return [bytearray(b"x") * 2**24 for _ in range(8)]
{before}
take()
first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
take()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - first)
"""


def faults(before: str) -> int:
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_second_step_takes_what_the_first_one_freed():
    kept = faults("memory.keep_freed()")
    assert kept < 1000 or platform.libc_ver()[0] != "glibc"
    assert faults("") > 10 * kept or platform.libc_ver()[0] != "glibc"
