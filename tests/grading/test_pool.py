"""Faults injected into the worker pool: death, hanging, memory, CPU; order and threads."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from stages.grading import GraderPool, grade_response

FAULTY = textwrap.dedent(
    """
    import os, signal, sys, time
    from stages.grading import worker
    from stages.grading.rewards import grade_answer

    def grade(answer, references):
        if "42424" in answer:
            time.sleep(600)
        if "31313" in answer:
            os.kill(os.getpid(), signal.SIGKILL)
        if "77777" in answer:
            [0] * 10**12
        if "88888" in answer:
            while True:
                pass
        return grade_answer(answer, references)

    worker.grade_answer = grade
    worker.serve(int(sys.argv[1]), int(sys.argv[2]))
    """
)
FAULTY_COMMAND = (sys.executable, "-c", FAULTY)
RADICAL = r"\sqrt{8}"  # needs a worker: not decided by text or plain numbers


def tagged(answer: str) -> str:
    return f"</think> <answer> {answer} </answer>"


def verdicts(results) -> list[str]:
    return [result.verdict for result in results]


def test_numbers_and_formats_start_no_worker():
    with GraderPool() as pool:
        items = [
            (tagged("5"), "5"),
            (tagged("0.5"), r"\frac12"),
            ("5", 5),
            (tagged("1" * 5_000), "7"),
            (tagged("x"), "x"),
        ]
        found = verdicts(pool.grade(items, "r1_zero"))
        assert found == ["correct", "correct", "unformatted", "too_long", "correct"]
        assert pool.worker_pids == []
        assert pool.counts == {"correct": 3, "unformatted": 1, "too_long": 1}


def test_a_pool_gives_the_verdicts_of_the_function_in_order():
    answers = [r"2\sqrt{2}", "3", r"\sqrt{2}\cdot 2", "9**9**9**9", "", "no tags", r"8^{1/2}", "\ud800"]
    items = [(tagged(answer) if answer != "no tags" else answer, RADICAL) for answer in answers] * 5
    with GraderPool(workers=2) as pool:
        graded = pool.grade(items, "r1_zero")
        assert len(pool.worker_pids) == 2
    assert graded == [grade_response(response, truth, "r1_zero") for response, truth in items]


def test_an_empty_batch_and_several_references():
    with GraderPool() as pool:
        assert pool.grade([], "r1_zero") == []
        assert verdicts(pool.grade([(tagged("2\\sqrt{2}"), ["7", RADICAL])], "r1_zero")) == ["correct"]


def test_errors_of_the_caller_come_at_once():
    with GraderPool() as pool:
        with pytest.raises(TypeError, match="ground_truth"):
            pool.submit([(tagged("5"), None)], "r1_zero")
        with pytest.raises(ValueError, match="kind"):
            pool.submit([(tagged("5"), "5")], "r2_zero")
    with pytest.raises(ValueError, match="workers"):
        GraderPool(workers=0)


def test_a_killed_worker_is_replaced_between_and_within_batches():
    with GraderPool() as pool:
        item = (tagged("2\\sqrt{2}"), RADICAL)
        assert verdicts(pool.grade([item], "r1_zero")) == ["correct"]
        first = pool.worker_pids[0]
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # dead, and left for the pool to notice
        batch = pool.submit([item] * 2_000, "r1_zero")
        while not (second := [pid for pid in pool.worker_pids if pid != first]):
            time.sleep(0.01)
        os.kill(second[0], signal.SIGKILL)
        assert verdicts(batch.result()) == ["correct"] * 2_000


def test_an_answer_that_kills_its_worker_twice_is_a_timeout_and_the_others_are_graded():
    items = [(tagged(answer), RADICAL) for answer in ("2\\sqrt{2}", "31313x", "8^{1/2}", "31313x", "3x")]
    with GraderPool(command=FAULTY_COMMAND) as pool:
        graded = pool.grade(items, "r1_zero")
    assert verdicts(graded) == ["correct", "timeout", "correct", "timeout", "wrong"]
    assert "died" in graded[1].reason


def test_a_hanging_answer_is_ended_and_the_others_are_graded():
    items = [(tagged(answer), RADICAL) for answer in ("2\\sqrt{2}", "42424x", "8^{1/2}")]
    with GraderPool(wall_seconds=3.0, command=FAULTY_COMMAND) as pool:  # good ones take thousandths of it
        graded = pool.grade(items, "r1_zero")
    assert verdicts(graded) == ["correct", "timeout", "correct"]
    assert "wall-clock" in graded[1].reason


def test_cpu_time_ends_a_busy_answer():
    items = [(tagged(answer), RADICAL) for answer in ("88888x", "8^{1/2}")]
    with GraderPool(cpu_seconds=1, wall_seconds=600.0, command=FAULTY_COMMAND) as pool:  # however slow the machine is
        graded = pool.grade(items, "r1_zero")
    assert verdicts(graded) == ["timeout", "correct"]
    assert "CPU" in graded[0].reason


def test_memory_past_the_limit_is_counted_as_too_long():
    items = [(tagged(answer), RADICAL) for answer in ("77777x", "8^{1/2}")]
    with GraderPool(memory_mb=512, command=FAULTY_COMMAND) as pool:
        graded = pool.grade(items, "r1_zero")
        assert pool.counts == {"too_long": 1, "correct": 1}
    assert verdicts(graded) == ["too_long", "correct"]
    assert "memory" in graded[0].reason


def test_a_stopped_worker_does_not_stop_the_pool():
    item = (tagged("2\\sqrt{2}"), RADICAL)
    with GraderPool(wall_seconds=3.0) as pool:
        pool.grade([item], "r1_zero")
        os.kill(pool.worker_pids[0], signal.SIGSTOP)
        graded = pool.grade([item, item], "r1_zero")
    assert verdicts(graded) == ["timeout", "correct"]


def test_a_worker_that_cannot_start_is_a_loud_error():
    with (
        GraderPool(command=(sys.executable, "-c", "raise SystemExit(3)")) as pool,
        pytest.raises(RuntimeError, match="did not start"),
    ):
        pool.grade([(tagged("8^{1/2}"), RADICAL)], "r1_zero")


def test_a_worker_killed_before_it_is_ready_is_started_again(tmp_path):
    """Two starts end in a kill; the answer is not blamed for them."""
    starts = tmp_path / "starts"
    program = textwrap.dedent(
        f"""
        import os, signal, sys
        from pathlib import Path
        from stages.grading import worker

        starts = Path({str(starts)!r})
        with starts.open("a") as log:
            log.write("x")
        if len(starts.read_text()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        worker.serve(int(sys.argv[1]), int(sys.argv[2]))
        """
    )
    with GraderPool(command=(sys.executable, "-c", program)) as pool:
        assert verdicts(pool.grade([(tagged("8^{1/2}"), RADICAL)], "r1_zero")) == ["correct"]
    assert starts.read_text() == "xxx"


PARENT = r"""
import sys, time
from stages.grading import GraderPool

pool = GraderPool(workers=2)
pool.grade([(f"</think> <answer> {n}x </answer>", "\\sqrt{8}") for n in range(200)], "r1_zero")
print(*pool.worker_pids, flush=True)
time.sleep(600)
"""


def test_workers_end_with_a_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert pids
    for pid in pids:
        while is_running(pid):
            time.sleep(0.01)


def is_running(pid: int) -> bool:
    """A process that has ended may stay as a zombie until its new parent collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_forked_copy_refuses_work_instead_of_waiting_for_threads_it_does_not_have():
    with GraderPool() as pool:
        item = (tagged("2\\sqrt{2}"), RADICAL)
        pool.grade([item], "r1_zero")
        child = os.fork()
        if child == 0:
            try:
                pool.grade([item], "r1_zero")
            except RuntimeError as error:
                os._exit(7 if "fork" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert verdicts(pool.grade([item], "r1_zero")) == ["correct"]


def test_many_threads_share_one_pool_and_keep_their_order():
    results: dict[int, list[str]] = {}
    with GraderPool(workers=2) as pool:

        def work(thread: int) -> None:
            answers = [r"2\sqrt{2}" if index % 3 else rf"{thread}\sqrt{{{index + 3}}}" for index in range(30)]
            results[thread] = verdicts(pool.grade([(tagged(answer), RADICAL) for answer in answers], "r1_zero"))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = ["correct" if index % 3 else "wrong" for index in range(30)]
    assert results[3] == expected
    assert set(results) == set(range(5))


def test_submitting_does_not_wait():
    """With its worker stopped the pool cannot grade, and yet `submit` returns."""
    item = (tagged("2\\sqrt{2}"), RADICAL)
    with GraderPool() as pool:
        pool.grade([item], "r1_zero")
        pid = pool.worker_pids[0]
        os.kill(pid, signal.SIGSTOP)
        batch = pool.submit([item, (tagged("5"), "5")], "r1_zero")
        assert not batch.done()
        os.kill(pid, signal.SIGCONT)
        assert verdicts(batch.result()) == ["correct", "correct"]


def test_closing_ends_the_workers_and_refuses_more_work():
    pool = GraderPool()
    pool.grade([(tagged("8^{1/2}"), RADICAL)], "r1_zero")
    (pid,) = pool.worker_pids
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(RuntimeError):
        pool.grade([(tagged("8^{1/2}"), RADICAL)], "r1_zero")


def test_an_error_in_the_caller_cancels_what_is_pending():
    item = (tagged("42424x"), RADICAL)  # hangs; the others wait behind it
    with pytest.raises(KeyboardInterrupt), GraderPool(wall_seconds=1.0, command=FAULTY_COMMAND) as pool:
        batch = pool.submit([item] * 50, "r1_zero")
        raise KeyboardInterrupt
    with pytest.raises(CancelledError):
        batch.result()


def test_the_functions_agree_with_themselves_in_many_threads():
    """The numeric library caches its constants for all threads; precisions differ from pair to pair."""
    pairs = [(rf"\pi+{10**size}\sqrt{{2}}", rf"{10**size}\cdot 2^{{1/2}}+\pi") for size in range(0, 200, 4)]
    found: list[str] = []

    def work() -> None:
        found.extend(grade_response(tagged(answer), gold, "r1_zero").verdict for gold, answer in pairs)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["correct"] * 8 * len(pairs)
