"""Grading in killable processes: from any thread, in order, with limits that hold whatever an answer does.

Format, equal text and plain numbers are decided in the calling process; only what has to be read as mathematics goes
to a worker, so a run that sees nothing but integers never starts one. Workers are fresh interpreters (no fork, so
threads and CUDA in the parent do not matter) and speak JSON over pipes.
"""

import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

from stages.grading.messages import decode, encode
from stages.grading.rewards import GroundTruth, extract, grade_quickly
from stages.grading.verdict import Verdict, make_verdict

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 120.0
_STARTS = 3  # a process killed before it was ready says nothing about the answer
_ATTEMPTS = 2  # a worker that dies by no fault of the item is replaced once


class GraderPool:
    """`with GraderPool(workers=2) as pool: verdicts = pool.grade([(response, ground_truth), ...], "r1_zero")`.

    `wall_seconds` bounds the wait for one item and is a backstop: work is bounded by counting before it is done, then
    by `cpu_seconds` of CPU time, which a busy machine does not use up. `memory_mb` bounds a worker's address space.
    `command` replaces the worker program (the tests substitute faulty ones).
    """

    def __init__(
        self,
        workers: int = 1,
        wall_seconds: float = 60.0,
        memory_mb: int = 1024,
        cpu_seconds: int = 10,
        command: Sequence[str] | None = None,
    ):
        if workers < 1 or wall_seconds <= 0:
            raise ValueError(f"workers and wall_seconds must be positive, got {workers} and {wall_seconds}")
        module = ("-P", "-m", "stages.grading.worker")
        self._command = [*(command or (sys.executable, *module)), str(memory_mb), str(cpu_seconds)]
        self._wall_seconds = wall_seconds
        self._threads = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="grader")
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._all = [Worker(self._command) for _ in range(workers)]
        for worker in self._all:
            self._idle.put(worker)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def __enter__(self) -> "GraderPool":
        return self

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        self.close(cancel=error is not None)

    def close(self, cancel: bool = False) -> None:
        """Ends the workers once what was submitted is graded, or cancelled; the pool takes no more work."""
        self._threads.shutdown(wait=True, cancel_futures=cancel)
        for worker in self._all:
            worker.stop()

    @property
    def counts(self) -> dict[str, int]:
        """How often each verdict was given so far."""
        with self._lock:
            return dict(self._counts)

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers running now; empty until an answer needed one."""
        return [worker.process.pid for worker in self._all if worker.process is not None]

    def grade(self, items: Sequence[tuple[str, GroundTruth]], kind: str) -> list[Verdict]:
        """Verdicts of (response, ground truth) pairs in their order. Errors as in `rewards.grade_response`."""
        return self.submit(items, kind).result()

    def submit(self, items: Sequence[tuple[str, GroundTruth]], kind: str) -> "Future[list[Verdict]]":
        """The same without waiting, so that grading overlaps with sampling. TypeError and ValueError come at once."""
        if os.getpid() != self._owner:  # threads do not survive a fork, so waiting would never end
            raise RuntimeError("a GraderPool works in the process that made it; make another after a fork")
        verdicts: list[Verdict | None] = []
        pending: dict[int, Future[Verdict]] = {}
        extracted = [extract(response, ground_truth, kind) for response, ground_truth in items]
        for index, (answer, references) in enumerate(extracted):
            verdict = answer if isinstance(answer, Verdict) else grade_quickly(answer, references)
            if verdict is None:
                pending[index] = self._threads.submit(self._grade_one, answer, references)
            verdicts.append(verdict)
        return self._gather(verdicts, pending)

    def _gather(self, verdicts: list, pending: dict[int, "Future[Verdict]"]) -> "Future[list[Verdict]]":
        """One future for a batch, resolved by whichever of its items ends last."""
        batch: Future[list[Verdict]] = Future()
        batch.set_running_or_notify_cancel()
        remaining = Counter(items=len(pending))

        def finish(_: object = None) -> None:
            with self._lock:
                remaining["items"] -= 1
                if remaining["items"] > 0:
                    return
            try:
                for index, future in pending.items():
                    verdicts[index] = future.result()
            except (Exception, CancelledError) as error:
                batch.set_exception(error)
                return
            with self._lock:
                self._counts.update(verdict.verdict for verdict in verdicts)
            batch.set_result(verdicts)

        for future in pending.values():
            future.add_done_callback(finish)
        if not pending:
            finish()
        return batch

    def _grade_one(self, answer: str, references: list[str]) -> Verdict:
        worker = self._idle.get()
        try:
            for _ in range(_ATTEMPTS):
                reply = worker.ask({"answer": answer, "references": references}, self._wall_seconds)
                if reply is not None:
                    return make_verdict(reply["verdict"], answer, reply["reason"])
            return make_verdict("timeout", answer, f"the grading process died {_ATTEMPTS} times on this answer")
        except TimeoutError as limit:
            return make_verdict("timeout", answer, str(limit))
        finally:
            self._idle.put(worker)


class Worker:
    """One process, started when first asked and again after its death. Used by one thread at a time."""

    def __init__(self, command: list[str]):
        self.command = command
        self.process: subprocess.Popen | None = None

    def ask(self, request: dict, wall_seconds: float) -> dict | None:
        """The reply; None if the process died of something else than the request.

        Raises TimeoutError, with the process ended, when the wall-clock or the CPU limit was reached.
        """
        alive = self.process is not None and self.process.poll() is None
        if not alive and not any(self._start() for _ in range(_STARTS)):
            return None
        end = time.monotonic() + wall_seconds
        try:
            self._send(encode(request), end)
            reply = decode(self._reader(end))
        except BrokenPipeError:
            reply = None
        except TimeoutError:
            self.stop()
            raise TimeoutError(f"no verdict within {wall_seconds:g} s of wall-clock time") from None
        if reply is None:
            code = self.process.wait()
            self.stop()
            if code == -signal.SIGXCPU:
                raise TimeoutError("the limit of CPU time was reached")
        return reply

    def _start(self) -> bool:
        """False if the new process was killed before it was ready. RuntimeError if the program itself fails."""
        self.stop()
        paths = [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, bufsize=0, env=environment, start_new_session=True
        )
        os.set_blocking(self.process.stdin.fileno(), False)
        try:
            if decode(self._reader(time.monotonic() + _START_SECONDS)) is not None:
                return True
            code = self.process.wait()
            problem = None if code < 0 else f"exit {code}"
        except TimeoutError:
            problem = f"not ready within {_START_SECONDS:g} s"
        self.stop()
        if problem is not None:
            raise RuntimeError(f"the grading process did not start ({problem}): {' '.join(self.command)}")
        return False

    def _send(self, data: bytes, end: float) -> None:
        pipe = self.process.stdin.fileno()
        while data:
            _wait(pipe, select.POLLOUT, end)
            data = data[os.write(pipe, data) :]

    def _reader(self, end: float) -> Callable[[int], bytes]:
        pipe = self.process.stdout.fileno()

        def read(size: int) -> bytes:
            _wait(pipe, select.POLLIN, end)
            return os.read(pipe, size)

        return read

    def stop(self) -> None:
        """Kills the process, if any, and waits for it."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def _wait(pipe: int, event: int, end: float) -> None:
    """Returns when the pipe is ready, or closed, for an event. Raises TimeoutError at `end` (monotonic seconds)."""
    poller = select.poll()
    poller.register(pipe, event)
    if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
        raise TimeoutError
