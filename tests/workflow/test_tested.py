"""The section `test`: what is measured on questions that no choice has seen, and what may not touch them."""

from __future__ import annotations

from typing import Any

import pytest

from stages.sources import parse_source
from tests.workflow.configs import config, faults, rates
from workflow import pages
from workflow.schema import load
from workflow.tested import origin

TEST = {"source": "arithmetic", "split": "test", "size": 4}


def tested(**sections: Any) -> dict[str, Any]:
    return config(**{"data": {"test": TEST}, "test": {"dataset": "test"}, **sections})


def asked(loaded: Any) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Evaluation on the test set -> policy, prompt, and the experiments that it is for."""
    return {
        name: (loaded.evaluations[name].model, loaded.evaluations[name].prompt, of) for name, of in loaded.tests.items()
    }


def test_each_winner_is_measured_once_and_the_base_policy_once_in_each_way():
    long = rates(fixed=rates()["fixed"] | {"sampling_max_tokens": 40, "sampling_temperature": 0.7})
    loaded = load(tested(experiments={"rates": rates(seeds=[0, 1]), "again": rates(), "long": long}))
    assert asked(loaded) == {
        "test_rates": ("rates", "r1_zero", ("rates",)),
        "test_base_r1_zero": ("base", "r1_zero", ("rates", "again")),
        "test_again": ("again", "r1_zero", ("again",)),
        "test_long": ("long", "r1_zero", ("long",)),
        "test_base_r1_zero_2": ("base", "r1_zero", ("long",)),
    }
    assert loaded.evaluations["test_long"].sampling_max_tokens == 40
    assert loaded.evaluations["test_base_r1_zero_2"].sampling_temperature == 0.7
    assert {loaded.evaluations[name].dataset for name in loaded.tests} == {"test"}
    assert load(config(experiments={"rates": rates()})).tests == {}


def test_the_winner_of_a_choice_of_prompts_is_asked_under_each():
    prompts = [{"prompt": name, "reward": name} for name in ("r1_zero", "question_only")]
    loaded = load(
        tested(
            experiments={
                "prompts": rates(grid={}, cases=prompts),
                "settled": rates(inherit={"prompt": "prompts", "reward": "prompts"}),
            }
        )
    )
    of = ("prompts", "settled")
    assert asked(loaded) == {
        f"test_{model}_{prompt}": (model, prompt, of if model == "base" else (model,))
        for model in ("base", *of)
        for prompt in ("r1_zero", "question_only")
    }


def test_what_loss_or_preferences_judge_has_no_answers_to_test():
    data = {"test": TEST} | {
        name: {"source": "arithmetic_instructions", "split": split, "size": 4}
        for name, split in (("chats", "train"), ("held_out", "validation"))
    }
    tuned = {"stage": "instruct", "fixed": {"train": "chats", "validation": "held_out"}}
    assert load(tested(data=data, experiments={"tuned": tuned})).tests == {}


def test_an_evaluation_that_says_the_same_is_taken_and_keeps_its_name():
    zero_shot = {"dataset": "test", "sampling_batch_size": 7}  # which changes how fast, not what
    other = {"dataset": "test", "sampling_max_tokens": 7}
    loaded = load(tested(evaluations={"other": other, "zero_shot": zero_shot}, experiments={"rates": rates()}))
    assert set(loaded.tests) == {"zero_shot", "test_rates"}
    assert loaded.added == {"test_rates"}
    assert loaded.evaluations["zero_shot"].sampling_batch_size == 7


def test_a_page_shows_the_tests_of_its_experiments():
    long = rates(fixed=rates()["fixed"] | {"sampling_max_tokens": 40})
    loaded = load(tested(experiments={"rates": rates(), "long": long}, main=["long"]))
    assert sorted(pages.evaluations(loaded, "report")) == ["test_base_r1_zero_2", "test_long"]
    assert len(pages.evaluations(loaded, "ladder")) == 4
    assert "test" in pages.datasets(loaded, "report")


SEEN = {"train": "train", "validation": "test"}
SUBSET = {"source": "curated", "dataset": "own"}
FROM_ANSWERS = {"source": "pass_rate", "evaluation": "asks"}


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"test": {"dataset": "tset"}}, "test.dataset: no dataset named 'tset'; did you mean test?"),
        ({"test": {"datset": "test"}}, "test.datset: unknown key; did you mean dataset?"),
        (
            {"experiments": {"rates": rates(fixed=SEEN)}},
            "experiments.rates: validation test is the test set; name one that is for validation",
        ),
        (
            {"experiments": {"rates": rates(fixed={"train": "same", "validation": "validation"})}},
            "experiments.rates: train same has the questions of test, which is the test set; name one",
        ),
        (
            {"test": {"dataset": "own"}, "data": {"subset": SUBSET}},
            "data.subset.dataset: own is the test set, which nothing may be made from",
        ),
        (
            {"evaluations": {"asks": {"dataset": "test"}}, "data": {"chosen": FROM_ANSWERS}},
            "data.chosen.evaluation: asks asks the test set, which may choose nothing",
        ),
        (
            {"test": {"dataset": "subset"}, "data": {"subset": SUBSET}},
            "test.dataset: subset is made from another dataset; name one of questions that nothing else has",
        ),
        (
            {"test": {"dataset": "chats"}},
            "test.dataset: chats holds instructions, and questions are needed here; ",
        ),
        (
            {"evaluations": {"test_rates": {"dataset": "validation"}}, "experiments": {"rates": rates()}},
            "evaluations.test_rates: the section test plans an evaluation of this name; choose another",
        ),
        (
            {"test": {"dataset": "letters"}, "experiments": {"rates": rates()}},
            "test.dataset: reward r1_zero cannot read the answers of letters; mmlu can",
        ),
    ],
)
def test_what_may_not_be(sections: dict[str, Any], fault: str):
    data = {
        "test": TEST,
        "same": TEST,
        "own": {"source": "jsonl", "path": "own.jsonl", "response": "response"},
        "chats": {"source": "arithmetic_instructions", "split": "test", "size": 4},
        "letters": {"source": "mmlu", "path": "mmlu"},
    }
    given = {**sections, "data": data | sections.get("data", {})}
    assert [line for line in faults(tested(**given)) if line.startswith(fault)]


def test_a_page_knows_what_its_datasets_are_for():
    data = {"test": TEST, "best": {"source": "curated", "dataset": "traces"}}
    imitation = {"stage": "sft", "fixed": {"train": "best", "validation": "validation"}}
    asked = {"before": {"dataset": "train"}, "after": {"dataset": "test", "model": "imitation"}}
    loaded = load(tested(data=data, evaluations=asked, experiments={"imitation": imitation, "rates": rates()}))
    assert pages.roles(loaded, "ladder") == {
        "train": ["train", "traces"],
        "validation": ["validation"],
        "test": ["test"],
        "asked": [],
    }


def test_the_same_questions_are_the_test_set_however_many_and_whatever_is_read_beside_them():
    def of(**values):
        return origin(parse_source(values, "data.x"))

    held = {"source": "arithmetic", "split": "test"}
    assert of(**held, size=16) == of(**held, size=8, seed=3)
    assert of(**held, size=16) == of(source="arithmetic_instructions", split="test", size=8)
    assert of(**held, size=16) != of(source="arithmetic", split="validation", size=16)
    assert (
        of(source="jsonl", path="x")
        == of(source="jsonl", path="x", response="response")
        != of(source="jsonl", path="y")
    )
