"""From examples to rows: which sample of which question has which seed."""

from __future__ import annotations

from stages.config import Grpo
from stages.engines.protocol import Completion, sample_seed
from stages.engines.rollouts import sample_rows
from tests.small_runs import VALUES

EXAMPLES = [{"example_id": name, "question": f"{name}?", "ground_truth": "1"} for name in "abab"]


class Echo:
    """Says a seed where a policy would say tokens drawn with it."""

    def generate(self, requests, sampling):
        return [[Completion([1], [0.0], str(seed), "length") for seed in one.seeds] for one in requests]


def rows_of(examples):
    settings = Grpo.model_validate(VALUES["grpo"])
    return sample_rows(
        Echo(),
        lambda _: [1],
        examples,
        settings,
        step=3,
        rollout_batch=1,
        group_size=2,
        seed_step=5,
        model="base",
        run="r",
    )


def test_an_example_that_comes_again_is_sampled_on():
    rows = rows_of(EXAMPLES)
    assert [(row["example_id"], row["sample_index"]) for row in rows] == [
        *(("a", 0), ("a", 1), ("b", 0), ("b", 1)),
        *(("a", 2), ("a", 3), ("b", 2), ("b", 3)),
    ]
    assert len({row["response"] for row in rows}) == len(rows)
    settings = Grpo.model_validate(VALUES["grpo"])
    for row in rows:
        assert row["response"] == str(sample_seed(settings.seed, 5, row["example_id"], row["sample_index"]))


def test_the_first_group_of_an_example_does_not_depend_on_whether_it_comes_again():
    assert rows_of(EXAMPLES)[:4] == rows_of(EXAMPLES[:2])
