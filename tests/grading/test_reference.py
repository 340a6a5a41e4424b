"""A grader of the user's in killable processes. The stand-ins are written here; the real file is never shipped."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from stages import grade as program
from stages.grading import reference
from stages.store import sha256
from stages.strict import ConfigError
from tests.reporting.build import rollout, validation, write_run

RIGHT, WRONG = "</think> <answer> 4 </answer>", "</think> <answer> 5 </answer>"

STAND_IN = """
import os, subprocess, sys

print("a grader that talks while it is read")
held = []

def r1_zero_reward_fn(response, ground_truth, fast=True):
    print("and while it grades")
    if "hangs" in response:
        while True:
            pass
    if "raises" in response:
        raise ValueError("no such expression")
    if "eats" in response:
        held.append(bytearray(8 << 30))
    if "exits" in response:
        sys.exit(0)
    if "dies" in response:
        os._exit(0)
    if "writes" in response:
        open(response.split()[1], "w")
    if "starts" in response:
        subprocess.run(["touch", response.split()[1]])
    if "secret" in response:
        right = float("LADDER_SECRET" in os.environ)
    else:
        right = float(f"<answer> {ground_truth} </answer>" in response)
    return {"format_reward": 1.0, "answer_reward": right, "reward": right}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "drgrpo_grader.py"
    found.write_text(STAND_IN)
    return found


def test_what_a_grader_does_to_its_process_costs_the_response_alone(file: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LADDER_SECRET", "1")
    answers = ["hangs", "raises", "eats", "exits", "dies", f"writes {tmp_path}/w", f"starts {tmp_path}/s", "secret"]
    pairs = [(RIGHT, "4"), *((answer, "4") for answer in answers), (WRONG, "4"), (RIGHT, "4")]
    found = reference.grade(file, pairs, "r1_zero", cpu_seconds=1)
    assert [one.answer_reward for one in found] == [1.0, *(0.0 for _ in answers), 0.0, 1.0]
    assert [one.fault for one in found[1:-2]] == [
        "the limit of CPU time was reached",
        "ValueError: no such expression",
        "the memory limit was reached",
        "SystemExit: 0",
        "the grading process ended",
        "PermissionError: open is refused while responses are graded",
        "PermissionError: subprocess.Popen is refused while responses are graded",
        "",
    ]
    assert [one.fault for one in (found[0], *found[-2:])] == ["", "", ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drgrpo_grader.py"]
    assert "reference_grader" not in sys.modules, "never in this process"


def test_a_grader_that_sleeps_is_ended_by_the_clock(tmp_path: Path):
    file = tmp_path / "sleeps.py"
    file.write_text("import time\ndef r1_zero_reward_fn(response, ground_truth):\n    time.sleep(3600)\n")
    (found,) = reference.grade(file, [(RIGHT, "4")], "r1_zero", wall_seconds=0.2)
    assert (found.reward, found.fault) == (0.0, "no verdict within 0.2 s of wall-clock time")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("raise OSError('no antlr')", "OSError: no antlr"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os; os._exit(3)", "the grading process did not start (exit 3)"),
        ("x = 1", "AttributeError: module 'reference_grader' has no attribute 'r1_zero_reward_fn'"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_error(tmp_path: Path, text: str, fault: str):
    (tmp_path / "g.py").write_text(text)
    with pytest.raises(reference.UnusableGrader) as refused:
        reference.grade(tmp_path / "g.py", [(RIGHT, "4")], "r1_zero")
    assert f"g.py cannot be used to grade: {fault}" in str(refused.value)


def test_reading_a_file_tells_whether_it_is_a_grader_without_running_it(tmp_path: Path, file: Path):
    assert reference.fault(file) is None
    bad = tmp_path / "bad.py"
    for text, said in (
        ("def grade(a, b): ...", "defines no function question_only_reward_fn and no r1_zero_reward_fn"),
        ("def (", "is no Python file"),
    ):
        bad.write_text(text)
        assert said in reference.fault(bad)
    assert "there is no file" in reference.fault(tmp_path / "absent.py")
    with pytest.raises(reference.UnusableGrader, match="grades r1_zero and question_only, not responses under reward"):
        reference.grade(file, [], "gsm8k")


def test_a_finished_run_is_scored_at_the_validation_that_the_board_counts(file: Path, tmp_path: Path, capsys):
    """The last validation came too late; at the one before, the two graders disagree twice."""
    rows = [rollout(f"q{n}", step, verdict) for step in (0, 10, 20) for n, verdict in enumerate(["correct"] * 4)]
    for row in rows:
        if row["step"] == 10:
            row["response"] = {"q0": RIGHT, "q1": WRONG, "q2": "raises", "q3": RIGHT}[row["example_id"]]
            row["answer_reward"] = float(row["example_id"] != "q3")
    metrics = [validation(step, 0.5, seconds=float(step)) for step in (0, 10, 20)]
    run = write_run(tmp_path / "run", {"max_seconds": 15.0, "reward": "r1_zero"}, metrics, rows)
    program.grade(reference=file, run_folder=run, out=tmp_path / "reference.json")
    found = json.loads((tmp_path / "reference.json").read_text())
    assert found == {
        "file": "drgrpo_grader.py",
        "sha256": sha256(file),
        "step": 10,
        "responses": 4,
        "answer_reward": 0.5,
        "format_reward": 0.75,
        "answer_reward_here": 0.75,
        "right_there_alone": 1,
        "right_here_alone": 2,
        "faults": {"ValueError: no such expression": 1},
    }
    assert "75.00% right here, 50.00% by drgrpo_grader.py" in capsys.readouterr().err.replace("\n", " ")
    with pytest.raises(ConfigError, match="there is no file"):
        program.grade(reference=tmp_path / "absent.py", run_folder=run)
    assert os.environ  # cleared in the worker alone
