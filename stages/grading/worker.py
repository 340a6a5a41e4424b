"""A grading process: reads requests from standard input, writes verdicts to standard output.

Run by `pool.GraderPool` as `python -P -m stages.grading.worker <memory_mb> <cpu_seconds>`. Requests are
`{"answer": str, "references": [str]}`, replies `{"verdict": str, "reason": str}` after a first `{"ready": true}`; the
process ends when its input does.
"""

import resource
import signal
import sys

from stages.grading.messages import decode, encode
from stages.grading.numeric import context
from stages.grading.rewards import grade_answer


def serve(memory_mb: int, cpu_seconds: int) -> None:
    limit(resource.RLIMIT_AS, memory_mb * 1024 * 1024)
    limit(resource.RLIMIT_CORE, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent to handle
    context()  # import mpmath before the first request
    _reply({"ready": True})
    while (request := decode(sys.stdin.buffer.read)) is not None:
        allow_cpu(cpu_seconds)
        _reply(_grade(request["answer"], request["references"]))


def _reply(message: dict) -> None:
    sys.stdout.buffer.write(encode(message))
    sys.stdout.buffer.flush()


def allow_cpu(seconds: int) -> None:
    """Ends the process (SIGXCPU) if the next item takes more CPU time than this, however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)


def limit(kind: int, value: int) -> None:
    """Sets a soft limit, never above what the machine allows."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _grade(answer: str, references: list[str]) -> dict[str, str]:
    try:
        verdict = grade_answer(answer, references)
    except MemoryError:
        return {"verdict": "too_long", "reason": "the memory limit of the grading process was reached"}
    return {"verdict": verdict.verdict, "reason": verdict.reason}


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
