"""An experiment is its runs; its faults are told by their keys, and in whatever relation it has to earlier ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workflow.configs import GRPO, config, faults, rates
from workflow.experiments import arms, lineage
from workflow.schema import load


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
        ({"cases": [{"cliprange": 0.1}, {"cliprange": -1}]}, "cases[1].cliprange: Input should be greater than 0"),
        ({"fixed": {**GRPO, "cliprange": 0.1}, "cases": [{"cliprange": -1}]}, "cases[0].cliprange: Input should be"),
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
        (
            {"stage": "sft", "fixed": {**GRPO, "train": "traces"}, "cases": [{"num_examples": 4}, {"num_examples": 5}]},
            "cases[1].num_examples: 5 of the 4 that traces has; write full, or a number of them",
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


def test_one_fault_of_many_runs_is_told_once():
    grid = {"learning_rate": [1.0e-4, 2.0e-4, 3.0e-4], "weight_deca": [0.1, 0.2]}
    assert faults(config(experiments={"rates": rates(grid=grid)})) == [
        "experiments.rates.grid.weight_deca: unknown key; did you mean weight_decay?"
    ]


def test_a_lineage_goes_from_the_earliest_experiment_to_the_latest():
    losses = rates(grid={"cliprange": [0.1]}, inherit={"learning_rate": "rates"})
    both = rates(grid={"weight_decay": [0.1]}, inherit={"learning_rate": "rates", "cliprange": "a_loss"})
    loaded = load(config(experiments={"rates": rates(), "a_loss": losses, "both": both}))
    assert [lineage(name, loaded.experiments) for name in ("rates", "a_loss", "both")] == [
        [],
        ["rates"],
        ["rates", "a_loss"],
    ]


def paths_of(**changes: Any) -> list[list[str]]:
    loaded = load(config(experiments={"rates": rates(**changes)}))
    return arms(loaded.experiments["rates"], loaded.runs["rates"])


def test_the_default_arm_comes_first():
    losses = {"loss_type": ["no_baseline", "reinforce_with_baseline"]}
    unnamed = paths_of(grid=losses)  # reinforce_with_baseline is the stage's own
    assert unnamed == [["loss_type=reinforce_with_baseline/seed=0"], ["loss_type=no_baseline/seed=0"]]
    fixed = paths_of(grid={}, fixed={**GRPO, "group_size": 4}, cases=[{"group_size": 2}, {}])
    assert fixed == [["seed=0"], ["group_size=2/seed=0"]]
    assert paths_of()[0] == ["learning_rate=0.0001/seed=0"]  # none is known, so the first
    assert paths_of(default={"learning_rate": 3.0e-4})[0] == ["learning_rate=0.0003/seed=0"]
    both = {"learning_rate": [1.0e-4, 3.0e-4], **losses}
    named = paths_of(grid=both, default={"learning_rate": 3.0e-4})
    assert named[0] == ["learning_rate=0.0003/loss_type=reinforce_with_baseline/seed=0"]


def test_every_arm_is_tried_with_every_tuned_value():
    tuned = {"grid": {"cliprange": [0.1, 0.2]}, "tune": {"learning_rate": [1.0e-4, 1.0e-3]}, "seeds": [0, 1]}
    first, second = paths_of(**tuned)
    assert first == [f"cliprange=0.2/learning_rate={rate}/seed={seed}" for rate in (0.0001, 0.001) for seed in (0, 1)]
    assert len(second) == 4
    later = rates(grid={"weight_decay": [0.1]}, inherit={"learning_rate": "rates", "cliprange": "rates"})
    assert load(config(experiments={"rates": rates(**tuned), "later": later})).runs["later"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"tune": {"learning_rate": [0.1]}}, "tune.learning_rate: stands under grid as well; keep one of them"),
        ({"tune": {"cliprange": [-1]}}, "tune.cliprange: Input should be greater than 0"),
        ({"tune": {"cliprnge": [0.1]}}, "tune.cliprnge: unknown key; did you mean cliprange"),
        ({"tune": {"seed": [0]}}, "tune.seed: seeds have a key of their own: seeds: [0, 1]"),
        ({"tune": {"cliprange": []}}, "tune.cliprange: "),
        (
            {"tune": {"cliprange": [0.1]}, "cases": [{"cliprange": 0.2}]},
            "cases[0].cliprange: stands under tune as well; keep one of them",
        ),
        (
            {"tune": {"group_size": [4]}, "fixed": {**GRPO, "group_size": 8}},
            "fixed.group_size: stands under tune as well; keep one of them",
        ),
        ({"default": {"learning_rate": 0.5}}, "default: no arm has these values; name those of one"),
        ({"default": {"cliprange": 0.1}}, "default.cliprange: rates does not sweep cliprange; it sweeps learning_rate"),
        (
            {"tune": {"cliprange": [0.1]}, "default": {"cliprange": 0.1}},
            "default.cliprange: every arm tunes it; name what tells the arms apart (learning_rate)",
        ),
        ({"seed_noise": -0.1}, "seed_noise: Input should be greater than or equal to 0"),
    ],
)
def test_faults_of_what_is_tuned_and_of_the_default(changes: dict[str, Any], fault: str):
    found = faults(config(experiments={"rates": rates(**changes)}))
    assert [line for line in found if line.startswith(f"experiments.rates.{fault}")], found
