"""Memory that was freed stays with the process, for the next step to take, as it does on a GPU.

glibc returns it to the kernel whenever the end of the heap is free, which after a backward pass it is; the next step
gets it back page by page, each one cleared first. That was a tenth of a GRPO step of a tiny policy.
"""

from __future__ import annotations

import ctypes
import platform

# Parameters of mallopt(3). To set one ends glibc's own adjusting of the other, so the second gets the value at which
# that would end.
KEPT = {-1: 2**30, -3: 2**25}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, in bytes


def keep_freed() -> None:
    """From now on up to a GiB that is freed is kept. Without effect where the C library is another than glibc."""
    if platform.libc_ver()[0] != "glibc":
        return
    for parameter, size in KEPT.items():
        ctypes.CDLL(None).mallopt(parameter, size)
