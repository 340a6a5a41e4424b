"""Every fault of a config is one line that names its key and says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workflow.configs import config, faults, rates
from workflow.datasets import absent
from workflow.schema import RESERVED, load


def test_the_results_folder_may_end_in_a_slash():
    assert load(config(results="somewhere/else/")).results == "somewhere/else"


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"experimens": {}}, "experimens: unknown key; did you mean experiments?"),
        ({"model": {}}, "model: give exactly one of shipped, pretrain, path, hub (got none)"),
        ({"model": {"pretrain": {"n_step": 1}}}, "model.pretrain.n_step: unknown key; did you mean n_steps?"),
        ({"results": "../{x}"}, "results: a folder's name is made of letters, digits, _ - . and / (got '../{x}')"),
        ({"preset": "My preset"}, "preset: names are made of a-z, 0-9, _ - and . (got 'My preset')"),
        ({"data": {"x": {}}}, "data.x.source: missing; known: alpaca_eval, arithmetic, arithmetic_instructions"),
        ({"data": {"x": {"source": "gsm8"}}}, "data.x.source: unknown source 'gsm8'; did you mean gsm8k?"),
        (
            {"data": {"x": {"source": "arithmetic", "split": "train", "sise": 4, "size": 4}}},
            "data.x.sise: unknown key; did you mean size?",
        ),
        (
            {"data": {"x": {"source": "jsonl", "path": ""}}},
            "data.x.path: String should have at least 1 character (got '')",
        ),
        ({"data": {"x": {"source": "gsm8k", "path": "a{x}.jsonl"}}}, "data.x.path: a path cannot hold braces, which"),
        ({"model": {"path": "a}b"}}, "model.path: a path cannot hold braces, which Snakemake reads as wildcards"),
        (
            {"model": {"path": __file__}},
            f"model.path: {__file__} is a file; give the folder that save_pretrained wrote",
        ),
        ({"model": "gpt2"}, "model: Input should be a section of keys and values (got 'gpt2')"),
        ({"main": "rates"}, "main: Input should be a list, as in [1, 2] (got 'rates')"),
        ({"evaluations": {True: {"dataset": "train"}}}, "evaluations.1.[key]: Input should be text; in quotes, where"),
        ({"data": {"x": {"source": "curated", "dataset": "trace"}}}, "data.x.dataset: no dataset named 'trace'; "),
        (
            {"data": {"x": {"source": "curated", "dataset": "train"}}},
            "data.x.dataset: train has no worked responses to grade; those that do: traces, x",
        ),
        ({"data": {"x": {"source": "curated", "dataset": "x"}}}, "data.x.dataset: x is curated already; "),
        ({"data": {"X y": {"source": "arithmetic_traces", "size": 1}}}, "data.X y: names are made of a-z, 0-9 and _"),
        ({"evaluations": {"z": {"dataset": "train", "promt": "r1_zero"}}}, "evaluations.z.promt: unknown key; did you"),
        ({"evaluations": {"z": {"dataset": "trian"}}}, "evaluations.z.dataset: no dataset named 'trian'; did you mean"),
        ({"evaluations": {"z": {"dataset": "train", "model": "rates"}}}, "evaluations.z.model: neither 'base' nor an"),
        (
            {"evaluations": {"z": {"dataset": "train", "prompt": "question_only"}}},
            "evaluations.z: prompt 'question_only' is graded by reward 'question_only', not 'r1_zero'",
        ),
    ],
)
def test_faults_of_the_sections(sections: dict[str, Any], fault: str):
    assert [line for line in faults(config(**sections)) if line.startswith(fault)]


def test_a_stage_and_its_data_hold_the_same_kind_of_rows():
    data = {
        "chats": {"source": "arithmetic_instructions", "split": "train", "size": 4},
        "pairs": {"source": "arithmetic_preferences", "split": "train", "size": 4},
        "best": {"source": "curated", "dataset": "chats"},
    }
    told = "\n".join(faults(config(data=data)))
    assert told == "data.best.dataset: chats holds instructions, and questions are needed here; " + (
        "train, validation, traces, best would do"
    )
    del data["best"]
    stages = {
        "tuned": {"stage": "instruct", "fixed": {"train": "train", "validation": "chats"}},
        "ranked": {"stage": "dpo", "fixed": {"train": "pairs", "validation": "chats"}},
        "imitated": {"stage": "sft", "fixed": {"train": "chats", "validation": "validation"}},
    }
    assert faults(config(data=data, experiments=stages)) == [
        "experiments.tuned.fixed.train: train holds questions, and instructions are needed here; chats would do",
        "experiments.ranked.fixed.validation: chats holds instructions, and preferences are needed here; "
        "pairs would do",
        "experiments.imitated.fixed.train: chats holds instructions, and questions are needed here; "
        "train, validation, traces would do",
    ]
    (told,) = faults(config(data=data, evaluations={"z": {"dataset": "pairs"}}))
    assert told.startswith("evaluations.z.dataset: pairs holds preferences, and questions are needed here; ")


@pytest.mark.parametrize("name", RESERVED)
def test_names_of_other_things_in_the_results_folder(name: str):
    assert faults(config(experiments={name: rates()})) == [
        f"experiments.{name}: results/{name} has another meaning; choose another name"
    ]


def test_a_results_folder_has_one_name():
    assert {load(config(results=way)).results for way in ("a/b", "./a/b", "a//b/", "a/c/../b")} == {"a/b"}


def test_a_tilde_is_told_to_be_no_home():
    assert absent("model.path", "~/none") == "model.path: there is no ~/none (~ is not read as your home)"


def test_an_empty_config_names_what_it_needs():
    assert faults({}) == ["preset: Field required", "model: Field required", "data: Field required"]


def test_pass_rates_need_an_evaluation_of_another_dataset():
    def told(evaluation: str, dataset: str = "train", model: str = "base", **bounds: float) -> str:
        chosen = {"source": "pass_rate", "evaluation": evaluation, **bounds}
        data, often = {**config()["data"], "chosen": chosen}, {"dataset": dataset, "model": model}
        return "\n".join(faults(config(data=data, evaluations={"often": often}, experiments={"rates": rates()})))

    assert "data.chosen.evaluation: no evaluation named 'offen'; did you mean often?" in told("offen")
    assert "often samples from a dataset of pass rates itself" in told("often", dataset="chosen")
    assert "often samples from the winner of rates, which may train on chosen" in told("often", model="rates")
    assert "at_least (0.5) exceeds at_most (0.1)" in told("often", at_least=0.5, at_most=0.1)


BENCHMARKS = {
    "mmlu": {"source": "mmlu", "path": "mmlu"},
    "alpaca": {"source": "alpaca_eval", "path": "alpaca.json"},
    "safety": {"source": "simple_safety_tests", "path": "safety.csv"},
    "countdown": {"source": "countdown", "size": 4},
    "curated": {"source": "curated", "dataset": "traces"},
}
FREE = {"prompt": "alpaca", "reward": "none"}


@pytest.mark.parametrize(
    ("evaluation", "told"),
    [
        (
            {"dataset": "mmlu", "prompt": "alpaca", "reward": "gsm8k"},
            "evaluations.asked.dataset: reward gsm8k cannot read the answers of mmlu; mmlu can",
        ),
        (
            {"dataset": "validation", "prompt": "alpaca", "reward": "mmlu"},
            "reward mmlu cannot read the answers of validation; r1_zero or question_only or gsm8k can",
        ),
        (
            {"dataset": "curated", "prompt": "alpaca", "reward": "mmlu"},
            "reward mmlu cannot read the answers of curated; r1_zero or question_only or gsm8k can",
        ),
        (
            {"dataset": "countdown", "prompt": "zero_shot", "reward": "gsm8k"},
            "reward gsm8k cannot read the answers of countdown; r1_zero or question_only can",
        ),
        (
            {"dataset": "alpaca"},
            "alpaca has no right answers for reward r1_zero to find; write reward: none, for a judge",
        ),
    ],
)
def test_a_reward_that_cannot_read_the_answers_is_a_fault(evaluation, told):
    (fault,) = faults(config(data=BENCHMARKS, evaluations={"asked": evaluation}))
    assert told in fault


def test_rewards_that_read_the_answers_are_none():
    fitting = {
        "gsm8k": {"dataset": "validation", "prompt": "alpaca", "reward": "gsm8k"},
        "mmlu": {"dataset": "mmlu", "prompt": "zero_shot", "reward": "mmlu"},
        "free": {"dataset": "alpaca", **FREE},
        "ungraded": {"dataset": "mmlu", **FREE},
    }
    assert set(load(config(data=BENCHMARKS, evaluations=fitting)).evaluations) == set(fitting)


def test_training_on_answers_that_its_reward_cannot_read_is_a_fault():
    fixed = {"train": "alpaca", "validation": "validation"}
    (fault,) = faults(config(data=BENCHMARKS, experiments={"rates": rates(fixed=fixed)}))
    assert "experiments.rates.fixed.train: alpaca has no right answers for reward r1_zero to find" in fault


def test_pass_rates_of_what_nothing_grades_are_a_fault():
    data = BENCHMARKS | {"chosen": {"source": "pass_rate", "evaluation": "free"}}
    (fault,) = faults(config(data=data, evaluations={"free": {"dataset": "validation", **FREE}}))
    assert fault == "data.chosen.evaluation: free grades nothing (reward none), so there are no pass rates"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"fre": "alpaca_eval"}, "judges.llama.evaluations.fre: no evaluation named 'fre'; did you mean free?"),
        ({"many": "alpaca_eval"}, "judges.llama.evaluations.many: a judge reads one response to each instruction;"),
        ({"unsafe": "alpaca_eval"}, "judges.llama.evaluations.unsafe: safety has no baseline to compare with;"),
    ],
)
def test_what_a_judge_cannot_decide_is_a_fault(asked, told):
    evaluations = {
        "free": {"dataset": "alpaca", **FREE},
        "many": {"dataset": "alpaca", "group_size": 2, **FREE},
        "unsafe": {"dataset": "safety", **FREE},
    }
    judges = {"llama": {"model": {"path": "judge"}, "evaluations": asked}}
    (fault,) = faults(config(data=BENCHMARKS, evaluations=evaluations, judges=judges))
    assert fault.startswith(told)
