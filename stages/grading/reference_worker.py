"""A process that grades with a file of the user's: the public grader of the course, which is no part of this project.

Run by `reference.grade` as `python -P -m stages.grading.reference_worker <file> <function> <memory_mb> <cpu_seconds>`.
Requests are `{"response": str, "ground_truth": str}`; replies, after a first `{"ready": true}`, `{"rewards": {...}}`,
`{"fault": str}` where there are none, or `{"unusable": str}`, all of them, where the file cannot be loaded.

That grader hands text of the policy to sympy, which evaluates it. So the process may use a bounded amount of memory
and of CPU time, may write no file, and starts no program and opens no connection as far as Python's audit events
tell. A text that is out to break Python itself is not held by that: who grades hostile text this way does it in a
container.
"""

import importlib.util
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from stages.grading.messages import decode, encode
from stages.grading.worker import allow_cpu, limit

NUMBERS = ("format_reward", "answer_reward", "reward")
REFUSED = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.remove", "os.rename", "os.rmdir")
REFUSED += ("os.kill", "subprocess.Popen", "socket.connect", "socket.bind", "shutil.rmtree", "ctypes.dlopen")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def serve(file: str, function: str, memory_mb: int, cpu_seconds: int) -> None:
    replies = os.fdopen(os.dup(1), "wb")  # what the file prints must not come between
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

    def reply(message: dict[str, Any]) -> None:
        replies.write(encode(message))
        replies.flush()

    limit(resource.RLIMIT_AS, memory_mb * 1024 * 1024)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    sys.dont_write_bytecode = True
    os.environ.clear()
    unusable, grade = "", None
    try:
        grade = load(file, function)
    except BaseException as error:  # whatever the file does while it is read, SystemExit included
        unusable = told(error)
    sys.addaudithook(refuse)
    reply({"ready": True})
    while (request := decode(sys.stdin.buffer.read)) is not None:
        allow_cpu(cpu_seconds)
        found = {"unusable": unusable} if grade is None else graded(grade, **request)
        reply(found)


def load(file: str, function: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("reference_grader", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
    if writing or event in REFUSED:
        raise PermissionError(f"{event} is refused while responses are graded")


def graded(grade: Callable[..., Any], response: str, ground_truth: str) -> dict[str, Any]:
    try:
        found = grade(response, ground_truth)
        return {"rewards": {name: float(found[name]) for name in NUMBERS}}
    except MemoryError:
        return {"fault": "the memory limit was reached"}
    except BaseException as error:  # SystemExit included: a grader that ends its process has not graded
        return {"fault": told(error)}


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error!s:.200}"


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
