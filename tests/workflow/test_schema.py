"""Every fault of a config is one line that names its key and says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from snakemake_interface_common.exceptions import WorkflowError

from workflow.datasets import absent
from workflow.experiments import lineage
from workflow.schema import RESERVED, load

GRPO = {"train": "train", "validation": "validation"}


def config(**sections: Any) -> dict[str, Any]:
    data = {
        "train": {"source": "arithmetic", "split": "train", "size": 4},
        "validation": {"source": "arithmetic", "split": "validation", "size": 4},
        "traces": {"source": "arithmetic_traces", "size": 4},
    }
    return {"preset": "test", "model": {"pretrain": {}}, "data": data | sections.pop("data", {}), **sections}


def rates(**changes: Any) -> dict[str, Any]:
    return {"stage": "grpo", "fixed": GRPO, "grid": {"learning_rate": [1.0e-4, 3.0e-4]}} | changes


def faults(given: dict[str, Any]) -> list[str]:
    with pytest.raises(WorkflowError) as refused:
        load(given)
    first, *lines = str(refused.value).splitlines()
    assert first == "the config cannot work:"
    return [line.strip() for line in lines]


def test_runs_are_grid_times_cases_times_seeds():
    cases = [{"train": "train"}, {"group_size": 4, "train": "traces"}]
    runs = load(config(experiments={"rates": rates(cases=cases, seeds=[0, 7])})).runs["rates"]
    assert list(runs) == [
        "learning_rate=0.0001/train=train/seed=0",
        "learning_rate=0.0001/train=train/seed=7",
        "learning_rate=0.0001/group_size=4/train=traces/seed=0",
        "learning_rate=0.0001/group_size=4/train=traces/seed=7",
        "learning_rate=0.0003/train=train/seed=0",
        "learning_rate=0.0003/train=train/seed=7",
        "learning_rate=0.0003/group_size=4/train=traces/seed=0",
        "learning_rate=0.0003/group_size=4/train=traces/seed=7",
    ]
    values = runs["learning_rate=0.0003/group_size=4/train=traces/seed=7"]
    assert (values["learning_rate"], values["group_size"], values["seed"]) == (3.0e-4, 4, 7)
    assert values["train"] == "traces"
    assert values["cliprange"] == 0.2  # a default of the stage


def test_values_that_a_path_cannot_carry_stay_apart():
    stops = [["</a>"], ["</b>"], ["<//>"]]
    runs = load(config(experiments={"stops": rates(grid={"stop": stops})})).runs["stops"]
    assert len(runs) == 3
    assert all("/" not in path.removesuffix("/seed=0") for path in runs)


def test_inherited_keys_are_left_to_the_job():
    inheriting = {"stage": "grpo", "fixed": GRPO, "grid": {"cliprange": [0.1]}, "inherit": {"learning_rate": "rates"}}
    values = load(config(experiments={"rates": rates(), "clips": inheriting})).runs["clips"]["cliprange=0.1/seed=0"]
    assert "learning_rate" not in values


def test_an_inherited_value_takes_part_in_the_checks():
    """train_batch_size 128 comes from `sizes`; the stage's own default, 256, would not fit these rollouts."""
    fixed = {**GRPO, "rollout_batch_size": 128, "gradient_accumulation_steps": 1}
    sizes = {"stage": "grpo", "fixed": fixed, "grid": {"train_batch_size": [128, 64]}}
    clips = {"stage": "grpo", "fixed": fixed, "grid": {"cliprange": [0.1]}, "inherit": {"train_batch_size": "sizes"}}
    assert load(config(experiments={"sizes": sizes, "clips": clips})).runs["clips"]


def test_the_results_folder_may_end_in_a_slash():
    assert load(config(results="somewhere/else/")).results == "somewhere/else"


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"experimens": {}}, "experimens: unknown key; did you mean experiments?"),
        ({"model": {}}, "model: give exactly one of pretrain, path, hub (got none)"),
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


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"stage": "grp"}, "stage: Input should be 'sft'"),
        ({"grd": {}}, "grd: unknown key; did you mean grid?"),
        ({"grid": {"learning_rate": []}}, "grid.learning_rate: "),
        ({"grid": {"learning_rat": [1.0]}}, "grid.learning_rat: unknown key; did you mean learning_rate?"),
        (
            {"grid": {"learning_rate": ["1e-5"]}},
            "grid.learning_rate: YAML reads 1e-5 as text, not as a number; write 1.0e-5",
        ),
        (
            {"grid": {"learning_rate": ["3.5E4"]}},
            "grid.learning_rate: YAML reads 3.5E4 as text, not as a number; write 35000.0",
        ),
        ({"grid": {"learning_rate": [1.0e-4, 1.0e-4]}}, ": two runs are the same: learning_rate=0.0001/seed=0"),
        ({"grid": {"seed": [1]}}, "grid.seed: seeds have a key of their own: seeds: [0, 1]"),
        ({"cases": [{"learning_rate": 0.1}]}, "cases[0].learning_rate: stands under grid as well; keep one of them"),
        ({"cases": [{"cliprange": 0.1}, {"cliprange": -1}]}, "cases[0].cliprange: Input should be greater than 0"),
        ({"fixed": {**GRPO, "learning_rate": 0.1}}, "fixed.learning_rate: stands under grid as well; keep one of them"),
        ({"fixed": {"train": "train"}}, "fixed.validation: Field required"),
        ({"fixed": {**GRPO, "train": "trai"}}, "fixed.train: no dataset named 'trai'; did you mean train"),
        (
            {"fixed": {**GRPO, "group_size": 7}},
            " (learning_rate=0.0001/seed=0): rollout_batch_size (256) must be divisible by group_size (7)",
        ),
        (
            {"fixed": {**GRPO, "validation": "train"}},
            "fixed.validation: train is what the run trains on; name a dataset that it never sees",
        ),
        (
            {"fixed": {**GRPO, "validation": "train_again"}},
            "fixed.validation: train_again is what the run trains on; name a dataset that it never sees",
        ),
        ({"stage": "sft"}, "fixed.train: train has no worked responses to imitate; those that do: traces"),
        ({"inherit": {"cliprange": "rate"}}, "inherit.cliprange: no experiment named 'rate'; did you mean rates?"),
        (
            {"inherit": {"cliprange": "other"}},
            "inherit.cliprange: other does not sweep cliprange; it sweeps group_size",
        ),
        ({"inherit": {"n_sft_steps": "steps"}}, "inherit.n_sft_steps: unknown key; did you mean"),
        ({"inherit": {"train": "other"}}, "inherit.train: a dataset cannot be inherited; name it under fixed"),
        (
            {"inherit": {"group_size": "other"}, "fixed": {**GRPO, "group_size": 8}},
            "inherit.group_size: group_size is given a value in this experiment as well; keep one of them",
        ),
    ],
)
def test_faults_of_an_experiment(changes: dict[str, Any], fault: str):
    other = {"stage": "grpo", "fixed": GRPO, "grid": {"group_size": [8]}}
    steps = {"stage": "sft", "fixed": {**GRPO, "train": "traces"}, "grid": {"n_sft_steps": [5]}}
    again = {"train_again": {"source": "arithmetic", "split": "train", "size": 4}}
    found = faults(config(data=again, experiments={"rates": rates(**changes), "other": other, "steps": steps}))
    wanted = f"experiments.rates{fault}" if fault.startswith((" ", ":")) else f"experiments.rates.{fault}"
    assert [line for line in found if line.startswith(wanted)], found


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


def test_inheritance_in_a_circle_is_named():
    def member(swept: str, key: str, source: str) -> dict[str, Any]:
        return {"stage": "grpo", "fixed": GRPO, "grid": {swept: [0.1]}, "inherit": {key: source}}

    a, b = member("cliprange", "weight_decay", "b"), member("weight_decay", "cliprange", "a")
    assert faults(config(experiments={"a": a, "b": b})) == [
        "experiments.a.inherit: goes round in a circle: a -> b -> a",
        "experiments.b.inherit: goes round in a circle: b -> a -> b",
    ]


def test_faults_of_a_comparison():
    def member(*others: str, **more: Any) -> dict[str, Any]:
        return {"stage": "grpo", "fixed": GRPO, "grid": {"cliprange": [0.1]}, "compare_with": list(others), **more}

    later = member(grid={"weight_decay": [0.1]}, inherit={"cliprange": "rates"})
    assert faults(config(experiments={"rates": member("rtes", "rates"), "other": member("rates", "rates")})) == [
        "experiments.rates.compare_with: no experiment named 'rtes'; did you mean rates?",
        "experiments.rates.compare_with: rates is shown by itself already; leave it out",
        "experiments.other.compare_with: rates stands here more than once",
    ]
    assert faults(config(experiments={"rates": member("later"), "later": later})) == [
        "experiments.rates.compare_with: goes round in a circle: rates -> later -> rates",
        "experiments.later.inherit: goes round in a circle: later -> rates -> later",
    ]


@pytest.mark.parametrize("name", RESERVED)
def test_names_of_other_things_in_the_results_folder(name: str):
    assert faults(config(experiments={name: rates()})) == [
        f"experiments.{name}: results/{name} has another meaning; choose another name"
    ]


def test_one_fault_of_many_runs_is_told_once():
    grid = {"learning_rate": [1.0e-4, 2.0e-4, 3.0e-4], "weight_deca": [0.1, 0.2]}
    assert faults(config(experiments={"rates": rates(grid=grid)})) == [
        "experiments.rates.grid.weight_deca: unknown key; did you mean weight_decay?"
    ]


def test_a_results_folder_has_one_name():
    assert {load(config(results=way)).results for way in ("a/b", "./a/b", "a//b/", "a/c/../b")} == {"a/b"}


def test_a_tilde_is_told_to_be_no_home():
    assert absent("model.path", "~/none") == "model.path: there is no ~/none (~ is not read as your home)"


def test_an_empty_config_names_what_it_needs():
    assert faults({}) == ["preset: Field required", "model: Field required", "data: Field required"]


def test_a_lineage_goes_from_the_earliest_experiment_to_the_latest():
    losses = rates(grid={"cliprange": [0.1]}, inherit={"learning_rate": "rates"})
    both = rates(grid={"weight_decay": [0.1]}, inherit={"learning_rate": "rates", "cliprange": "a_loss"})
    loaded = load(config(experiments={"rates": rates(), "a_loss": losses, "both": both}))
    assert [lineage(name, loaded.experiments) for name in ("rates", "a_loss", "both")] == [
        [],
        ["rates"],
        ["rates", "a_loss"],
    ]


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
