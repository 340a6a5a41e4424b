"""Specifications say all that a job may know; the record of a results folder says whose it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from stages.config import STAGES, Evaluation
from stages.judges import Judging
from stages.sources import ModelSource, parse_source
from stages.strict import parse
from workflow import pages, preset, specs
from workflow.schema import Config, load

ROOT = Path(__file__).parents[2]


def config(results: Path | str = "results", **changes: Any) -> Config:
    rates = {"stage": "grpo", "fixed": {"train": "a", "validation": "b"}, "grid": {"learning_rate": [0.1, 0.2]}}
    clips = rates | {"grid": {"cliprange": [0.3]}, "inherit": {"learning_rate": "rates"}}
    given = {
        "preset": "test",
        "results": str(results),
        "model": {"pretrain": {}},
        "data": {"a": {"source": "arithmetic_traces", "size": 4}, "b": {"source": "curated", "dataset": "a"}},
        "evaluations": {"zero": {"dataset": "a"}},
        "experiments": {"rates": rates, "clips": clips},
    }
    return load(given | changes)


def test_values_are_what_the_stage_will_parse():
    loaded = config()
    assert parse(ModelSource, specs.base_model(loaded)["values"], "") == loaded.model
    assert parse_source(specs.dataset(loaded, "b")["values"], "") == loaded.data["b"]
    assert parse(Evaluation, specs.sampling(loaded, "zero")["values"], "") == loaded.evaluations["zero"]
    spec = specs.training(loaded, "clips", "cliprange=0.3/seed=0")
    settings = parse(STAGES["grpo"], spec["values"] | {"learning_rate": 0.2}, "")
    assert (settings.cliprange, settings.learning_rate) == (0.3, 0.2)
    assert spec["inherit"] == {"learning_rate": "rates"}
    assert spec["name"] == "clips/cliprange=0.3/seed=0"


def test_each_kind_names_its_program():
    loaded = config()
    built = [
        specs.base_model(loaded),
        specs.dataset(loaded, "a"),
        specs.dataset(loaded, "b"),
        specs.sampling(loaded, "zero"),
        specs.grading(loaded, "zero"),
        specs.training(loaded, "rates", "learning_rate=0.1/seed=0"),
        specs.selection(loaded, "rates"),
        specs.summary(loaded, "rates"),
        specs.report(loaded, "report"),
    ]
    stages = ["base_model", "prepare", "curate", "sample", "grade", "grpo", "select", "summarize", "report"]
    assert [spec["stage"] for spec in built] == stages
    for spec in built:
        assert specs.with_code(spec, ROOT)["code"].startswith(f"stages.{spec['stage']}@")


def test_the_selection_knows_each_runs_values():
    runs = specs.selection(config(), "rates")["runs"]
    assert {path: values["learning_rate"] for path, values in runs.items()} == {
        "learning_rate=0.1/seed=0": 0.1,
        "learning_rate=0.2/seed=0": 0.2,
    }


def test_an_unchanged_file_keeps_its_time(tmp_path: Path):
    file = tmp_path / "deep/spec.json"
    specs.write_if_changed(file, {"b": 1, "a": [1.5, None]})
    os.utime(file, (1, 1))
    specs.write_if_changed(file, {"a": [1.5, None], "b": 1})
    assert file.stat().st_mtime == 1
    specs.write_if_changed(file, {"a": 2})
    assert json.loads(file.read_text()) == {"a": 2}
    assert file.stat().st_mtime > 1
    assert [path.name for path in file.parent.iterdir()] == ["spec.json"]


def test_current_means_equal_the_code_optionally_apart(tmp_path: Path):
    file = str(tmp_path / "spec.json")
    assert not specs.is_current(file, {"values": 1})
    specs.write_if_changed(file, {"values": (1, 2), "code": "old"})
    assert specs.is_current(file, {"values": [1, 2], "code": "old"})
    assert not specs.is_current(file, {"values": [1, 2], "code": "new"})
    assert specs.is_current(file, {"values": [1, 2], "code": "new"}, ignore_code=True)
    assert not specs.is_current(file, {"values": [1], "code": "old"}, ignore_code=True)
    Path(file).write_text("{half a fi")
    assert not specs.is_current(file, {"values": [1]})


ORDINARY = [
    {"data": {"a": {"source": "arithmetic_traces", "size": 9, "seed": 3}, "b": {"source": "curated", "dataset": "a"}}},
    {
        "data": {"a": {"source": "arithmetic_traces", "size": 4}, "c": {"source": "arithmetic_traces", "size": 4}},
        "experiments": {},
    },
    {"experiments": {}},
    {"model": {"pretrain": {"n_steps": 7}}},
]
OTHER = [
    ({"preset": "other"}, "preset: test there, other in the config"),
    ({"model": {"hub": "a/b", "revision": 40 * "c"}}, f"model: pretrain there, hub a/b@{40 * 'c'} in the config"),
    (
        {"data": {"a": {"source": "arithmetic", "split": "train", "size": 4}}, "experiments": {}},
        "data.a.source: arithmetic_traces there, arithmetic in the config",
    ),
]


@pytest.mark.parametrize("changes", ORDINARY)
def test_ordinary_edits_stay_in_their_folder(tmp_path: Path, changes: dict[str, Any]):
    preset.claim(config(tmp_path))
    preset.check(config(tmp_path, **changes))


@pytest.mark.parametrize(("changes", "difference"), OTHER)
def test_another_preset_is_refused(tmp_path: Path, changes: dict[str, Any], difference: str):
    results = tmp_path / "results"
    preset.check(config(results))  # nothing there yet
    preset.claim(config(results))
    with pytest.raises(WorkflowError) as refused:
        preset.check(config(results, **changes))
    assert difference in str(refused.value)
    assert f"--config results={results}-" in str(refused.value)
    assert f"mv {results} {results}-test-old" in str(refused.value)


def test_an_unreadable_record_is_named(tmp_path: Path):
    (tmp_path / "preset.json").write_text("[]")
    with pytest.raises(WorkflowError, match=r"preset\.json cannot be read; delete it"):
        preset.check(config(tmp_path))


def test_a_comparison_is_told_to_the_summary_and_the_report_alone():
    plain = config()
    plan = {name: one.model_dump(exclude_defaults=True) for name, one in plain.experiments.items()}
    compared = config(experiments=plan | {"clips": plan["clips"] | {"compare_with": ["rates"]}})
    run = "cliprange=0.3/seed=0"
    assert specs.training(compared, "clips", run) == specs.training(plain, "clips", run)
    assert specs.selection(compared, "clips") == specs.selection(plain, "clips")
    told = specs.summary(compared, "clips")["references"]
    assert told == specs.report(compared, "report")["experiments"]["clips"]["references"]
    assert told["rates"]["winner"] == "results/winners/rates.json"
    assert told["rates"]["grid"] == {"learning_rate": [0.1, 0.2]}
    assert told["rates"]["runs"]["learning_rate=0.2/seed=0"] == "results/runs/rates/learning_rate=0.2/seed=0"
    assert specs.summary(plain, "clips")["references"] == {}


JUDGING = {
    "evaluations": {"zero": {"dataset": "a", "prompt": "zero_shot", "reward": "none"}, "other": {"dataset": "a"}},
    "judges": {
        "llama": {
            "model": {"path": "judge"},
            "compute": {"dtype": "bfloat16"},
            "evaluations": {"zero": "simple_safety_tests"},
        }
    },
}


def test_a_judge_is_told_what_it_decides_and_on_what_it_runs():
    loaded = config(**JUDGING)
    spec = specs.judging(loaded, "llama", "zero")
    assert parse(Judging, spec["values"], "").prompt == "simple_safety_tests"
    assert (spec["stage"], spec["name"], spec["stop"]) == ("judge", "llama/zero", ["# Query:"])
    assert spec["compute"]["dtype"] == "bfloat16"
    assert spec["categories"] is False  # arithmetic has no harm areas
    assert specs.sampling(loaded, "zero")["compute"]["dtype"] == "float32"
    with pytest.raises(WorkflowError, match="judge llama does not judge other"):
        specs.judging(loaded, "llama", "other")


def test_another_evaluation_to_decide_changes_no_specification():
    loaded = config(**JUDGING)
    more = {
        "llama": JUDGING["judges"]["llama"] | {"evaluations": dict.fromkeys(("zero", "other"), "simple_safety_tests")}
    }
    wider = config(evaluations=JUDGING["evaluations"], judges=more)
    assert specs.judging(wider, "llama", "zero") == specs.judging(loaded, "llama", "zero")
    assert specs.sampling(wider, "zero") == specs.sampling(loaded, "zero")


def test_a_page_shows_what_judges_say_of_its_evaluations():
    shown = specs.report(config(**JUDGING), "report")
    assert shown["evaluations"]["zero"]["judgements"] == {"llama": "results/judgements/llama/zero"}
    assert shown["evaluations"]["other"]["judgements"] == {}
    assert shown["logs"]["judgement llama/zero"] == "results/logs/judge/llama/zero.log"


def test_logs_lie_with_the_results_they_tell_of():
    """Two presets in one checkout have experiments of the same names."""
    logs = pages.logs(config(results="elsewhere/mine", **JUDGING), "ladder")
    assert logs
    assert all(log.startswith("elsewhere/mine/logs/") for log in logs.values())


BUDGET = {"rates": {"stage": "grpo", "fixed": {"train": "a", "validation": "b", "max_seconds": 60}}}
GRADER = "def r1_zero_reward_fn(response, ground_truth): ..."


def test_a_run_with_a_budget_is_told_what_a_board_asks_for(tmp_path: Path):
    assert specs.summary(config(), "rates")["board"] == {}
    told = specs.summary(config(experiments=BUDGET), "rates")["board"]
    assert (told["stage"], told["model"]["hub"]) == ("grpo", None)
    assert {name: source["name"] for name, source in told["data"].items()} == {"a": "a", "b": "a"}
    assert "reference" not in told
    assert specs.report(config(experiments=BUDGET), "report")["experiments"]["rates"]["board"] == told


def test_the_courses_grader_is_known_by_what_is_in_its_file(tmp_path: Path):
    file = tmp_path / "grader.py"
    file.write_text(GRADER)
    loaded = config(experiments=BUDGET, reference_grader=str(file))
    assert specs.summary(loaded, "rates")["board"]["reference"] is True
    first = specs.reference(loaded, "rates", "seed=0")
    file.write_text(GRADER + "  # edited")
    assert specs.reference(loaded, "rates", "seed=0") != first
    with pytest.raises(WorkflowError, match=r"reference_grader: there is no file .*absent"):
        config(reference_grader=str(tmp_path / "absent.py"))
