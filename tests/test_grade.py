"""Grading keeps every row where it was, whatever the responses hold, and counts them."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from stages import grade
from stages.records import METRICS, ROLLOUTS, DataError, provenance_of, read_table, table, write_table
from stages.strict import ConfigError

ROOT = Path(grade.__file__).parents[1]
VALUES = {"dataset": "held_out", "prompt": "r1_zero", "reward": "r1_zero"}


def rollout(example, response, truth="4", tokens=3, finish="stop"):
    return {
        "example_id": example,
        "step": 0,
        "sample_index": 0,
        "prompt": "2+2?",
        "response": response,
        "prompt_token_ids": [1, 2],
        "response_token_ids": list(range(tokens)),
        "sampler_log_probs": [-0.1] * tokens,
        "finish_reason": finish,
        "ground_truth": truth,
        "num_response_tokens": tokens,
        "seed": 0,
        "model": "base",
        "run": "evaluation",
    }


ROWS = [
    rollout("a", " 4 </think> <answer> 4 </answer>"),
    rollout("b", " never mind", tokens=9, finish="length"),
    rollout("c", " 5 </think> <answer> 5 </answer>", tokens=4),
    rollout("d", "", tokens=0, finish="eos"),
    rollout("e", " </think> <answer> 9**9**9**9 </answer>", tokens=6),
    rollout("f", " </think> <answer> __import__('os').system('false') </answer>"),
    rollout("g", " </think> <answer> 1,234 </answer>", truth="1234", tokens=5),
]
VERDICTS = {"a": "correct", "b": "unformatted", "c": "wrong", "d": "unformatted", "f": "wrong", "g": "correct"}


def run(folder, rows, **values):
    paths = {name: folder / f"{name}.parquet" for name in ("rollouts", "graded", "metrics")}
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"stage": "sample", "name": "held_out", "code": "c0de", "values": VALUES | values}))
    write_table(paths["rollouts"], table(rows, ROLLOUTS), {"seconds": 1000.0, "seconds_generating": 700.0})
    grade.grade(spec=spec, **paths)
    return read_table(paths["graded"], ROLLOUTS).to_pylist(), read_table(paths["metrics"], METRICS).to_pylist()


def command(*arguments):
    call = [sys.executable, "-P", "-m", "stages.grade", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "200"}
    return subprocess.run(call, capture_output=True, text=True, env=environment, check=False)


def test_an_evaluation_takes_as_long_as_its_sampling_and_its_grading(tmp_path):
    _, (counts,) = run(tmp_path, ROWS)
    assert counts["seconds_sample"] == 700.0
    assert counts["examples_per_second"] == counts["num_examples"] / 700.0
    assert counts["seconds"] == 1000.0 + counts["seconds_grade"]
    assert provenance_of(tmp_path / "graded.parquet")["seconds"] == counts["seconds_grade"]


def test_every_row_keeps_its_place_and_everything_but_its_rewards(tmp_path):
    rows = ROWS * 5
    random.Random(0).shuffle(rows)
    graded, _ = run(tmp_path, rows)
    before = read_table(tmp_path / "rollouts.parquet", ROLLOUTS).to_pylist()
    for sampled, row in zip(before, graded, strict=True):
        assert {key: row[key] for key in row if key not in grade.GRADED} == {
            key: sampled[key] for key in sampled if key not in grade.GRADED
        }
        if row["example_id"] == "e":
            assert row["answer_reward"] == 0.0
        else:
            assert row["verdict"] == VERDICTS[row["example_id"]]
        assert row["answer_reward"] == row["reward"] == float(row["verdict"] == "correct")
        assert row["format_reward"] == float(row["verdict"] != "unformatted")


def test_the_counts_are_those_of_the_rows(tmp_path):
    graded, (metrics,) = run(tmp_path, ROWS)
    assert (metrics["kind"], metrics["step"], metrics["num_examples"]) == ("validation", 0, 7)
    assert metrics["format1_answer1"] == 2
    assert metrics["format0_answer0"] == 2
    assert metrics["format1_answer0"] == 3
    assert metrics["ungraded"] == sum(row["verdict"] in ("timeout", "too_long", "bad_reference") for row in graded)
    assert metrics["answer_reward"] == pytest.approx(2 / 7)
    assert metrics["truncated"] == pytest.approx(1 / 7)
    assert (metrics["length_correct"], metrics["length_incorrect"]) == (4.0, 22 / 5)


def test_all_wrong_is_a_score_of_zero_not_a_missing_one(tmp_path):
    _, (metrics,) = run(tmp_path, [ROWS[2], ROWS[1]])
    assert (metrics["answer_reward"], metrics["length_correct"]) == (0.0, None)


def test_the_reward_of_the_specification_is_used(tmp_path):
    rows = [rollout("a", r" It is \boxed{4}."), rollout("b", " 4 </think> <answer> 4 </answer>")]
    graded, _ = run(tmp_path, rows, prompt="question_only", reward="question_only")
    assert [row["verdict"] for row in graded] == ["correct", "unformatted"]


def test_what_a_judge_decides_stays_ungraded_and_is_counted(tmp_path):
    rows = [rollout("a", "A star.", tokens=4), rollout("b", "", tokens=2, finish="length")]
    graded, (metrics,) = run(tmp_path, rows, prompt="alpaca", reward="none")
    assert graded == read_table(tmp_path / "rollouts.parquet", ROLLOUTS).to_pylist()
    assert (metrics["num_examples"], metrics["length"], metrics["truncated"]) == (2, 3.0, 0.5)
    assert metrics["answer_reward"] is metrics["format1_answer1"] is None
    assert (metrics["seconds_sample"], metrics["examples_per_second"]) == (700.0, 2 / 700.0)


def test_a_benchmarks_own_rule_is_used(tmp_path):
    rows = [rollout("a", "They are 3, so 4.00 in all."), rollout("b", "Four.")]
    graded, _ = run(tmp_path, rows, prompt="zero_shot", reward="gsm8k")
    assert [row["verdict"] for row in graded] == ["correct", "unformatted"]


def test_metrics_are_optional_and_outputs_say_what_they_are(tmp_path):
    run(tmp_path, ROWS[:1])
    (tmp_path / "metrics.parquet").unlink()
    grade.grade(spec=tmp_path / "spec.json", rollouts=tmp_path / "rollouts.parquet", graded=tmp_path / "graded.parquet")
    assert not (tmp_path / "metrics.parquet").exists()
    assert provenance_of(tmp_path / "graded.parquet")["spec"]["name"] == "held_out"


def test_no_rollouts_and_a_bad_value_are_errors(tmp_path):
    with pytest.raises(DataError, match=r"rollouts\.parquet: no rollouts in it"):
        run(tmp_path, [])
    with pytest.raises(ConfigError, match=r"evaluations\.held_out\.rewrad: unknown key; did you mean reward"):
        run(tmp_path, ROWS, rewrad="r1_zero")


def test_a_lost_verdict_is_noticed():
    sampled = table(ROWS, ROLLOUTS)
    with pytest.raises(ValueError, match="0 verdicts for 7 rollouts"):
        grade.fill(sampled, [])


def test_explain_from_the_command_line():
    same, different = command("--explain", "1/2", "0.5"), command("--explain", "-5", "5")
    assert (same.returncode, different.returncode) == (0, 0), same.stderr + different.stderr
    assert "correct" in same.stdout
    assert "wrong" in different.stdout


def test_missing_options_are_named():
    done = command("--rollouts", "r.parquet")
    assert done.returncode == 2
    assert "give --spec, --graded, or --explain GOLD ANSWER" in done.stderr


def test_an_expected_error_is_one_readable_line(tmp_path):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"stage": "sample", "name": "held_out", "code": "c0de", "values": VALUES}))
    done = command("--spec", str(spec), "--rollouts", str(tmp_path / "absent"), "--graded", str(tmp_path / "out"))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "absent: no such file" in done.stderr
