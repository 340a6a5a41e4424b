"""Examples per second of evaluations, and what they are compared with."""

from stages.reporting.contents import Evaluated
from stages.reporting.speed import sentences


def evaluated(name, speed, dataset="held_out", model="base", prompt="r1_zero", **hardware):
    values = {"dataset": dataset, "model": model, "prompt": prompt}
    return Evaluated(name, values, {"examples_per_second": speed}, [], hardware)


def test_each_is_compared_with_the_base_policys_on_the_same_dataset_and_prompt():
    said = sentences(
        [
            evaluated("base", 20.0),
            evaluated("base_plain", 8.0, prompt="question_only"),
            evaluated("tuned", 30.0, model="sft"),
            evaluated("tuned_plain", 4.0, model="sft", prompt="question_only"),
            evaluated("other", 1234.5, dataset="mmlu", model="sft"),
            evaluated("elsewhere", 10.0, model="sft", gpus=1),
            evaluated("untimed", None),
        ]
    )
    assert said == {
        "base": "20 examples per second of sampling, loading left out.",
        "base_plain": "8 examples per second of sampling, loading left out: 0.40 times the rate of base.",
        "tuned": "30 examples per second of sampling, loading left out: 1.50 times the rate of base.",
        "tuned_plain": "4 examples per second of sampling, loading left out: 0.50 times the rate of base_plain.",
        "other": "1234 examples per second of sampling, loading left out.",
        "elsewhere": "10 examples per second of sampling, loading left out: 0.50 times the rate of base, which ran on "
        "other hardware.",
        "untimed": "",
    }
