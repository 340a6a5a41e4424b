"""python -m tests.kernels: the numeric tests under other kernels than this processor's own, a process for each.

Which instructions add up a product, and how many threads, decides the order of its sums and so the last digits. No test
may rest on them: here PyTorch and MKL take those of older processors, one thread or two, and the machine is busy. Each
kernel is asked for by environment variables, and a probe says what they led to: what cannot be had is skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

NUMERIC = ["algorithm", "policy", "engines", "test_sft.py", "test_grpo.py", "test_alignment.py", "test_early_end.py"]
TIMED = ["grading/test_pool.py", "test_store.py", "test_sft.py"]
LEAVE_OUT = "not two_processes"  # the same sums, over again, in twice the processes
ONE, TWO = ({"OMP_NUM_THREADS": number, "OMP_WAIT_POLICY": "PASSIVE"} for number in "12")
# PyTorch's instructions are lowered together with oneDNN's: its attention in bfloat16 asks oneDNN whether there is AMX.
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "AVX2"}
NONE = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}

# Name: the variables, and what must be found in the probe's words for them to be in force.
KERNELS = {
    "this processor's, two threads": (TWO, "2 threads,"),
    "PyTorch's without vectors": (ONE | PLAIN, "PyTorch DEFAULT,"),
    "MKL's of AVX2": (ONE | {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}, "MKL AVX2"),
    "all of AVX2": (ONE | AVX2, "PyTorch AVX2, MKL AVX2"),
    "all of the oldest": (TWO | NONE, "2 threads, PyTorch DEFAULT, MKL SSE4.2"),
}
PROBE = """
import torch
n = torch.get_num_threads()
print("found", n, "thread" + "s" * (n > 1) + ", PyTorch", torch.backends.cpu.get_cpu_capability(), flush=True)
torch.ones(64, 64) @ torch.ones(64, 64)
"""


def found(variables: dict[str, str]) -> str:
    """What products are computed with under these variables: threads, instructions of PyTorch and, if used, of MKL."""
    asked = os.environ | variables | {"MKL_VERBOSE": "1"}
    told = subprocess.run([sys.executable, "-c", PROBE], env=asked, capture_output=True, text=True, check=True).stdout
    mkl = re.search(r"^MKL_VERBOSE one.*?\(Intel\(R\) ([\w.-]+)\)", told, re.MULTILINE)
    return re.search(r"^found (.*)$", told, re.MULTILINE)[1] + (f", MKL {mkl[1]}" if mkl else "")


def run_tests(selected: list[str], variables: dict[str, str]) -> tuple[bool, str]:
    """Whether they pass, and pytest's last line; all that it says where one fails."""
    paths = [f"tests/{name}" for name in selected]
    with tempfile.TemporaryDirectory() as folder:
        options = ["-o", "addopts=--strict-markers", "-q", "--tb=short", "-p", "no:cacheprovider", "--basetemp", folder]
        command = [sys.executable, "-m", "pytest", *paths, *options, "-k", LEAVE_OUT]
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        return False, done.stdout + done.stderr
    return True, done.stdout.splitlines()[-1]


def under(name: str) -> tuple[str, bool, str]:
    """What was in force under a kernel, whether the numeric tests pass there, and what pytest said."""
    variables, wanted = KERNELS[name]
    kernel = found(variables)
    if wanted not in kernel:
        return kernel, True, "skipped: not to be had here"
    return kernel, *run_tests(NUMERIC, variables)


@contextmanager
def busy() -> Iterator[None]:
    """A process for each core that never rests."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def main() -> int:
    passed = True

    def say(name: str, kernel: str, fine: bool, told: str) -> None:
        nonlocal passed
        passed &= fine
        print(f"{name:31} {kernel:46} {told if fine else 'FAILED'}", flush=True)
        if not fine:
            print(told, flush=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (kernel, fine, told) in zip(KERNELS, pool.map(under, KERNELS), strict=True):
            say(name, kernel, fine, told)
    with busy():
        say("beside a busy process per core", found(ONE), *run_tests(TIMED, ONE))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
