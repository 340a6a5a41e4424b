import pytest

from stages.records import DataError
from stages.reporting import tables
from stages.reporting.references import Reference, against, on_policy, read_references
from stages.reporting.runs import Configuration, Run, configurations, ranked
from stages.store import write_json
from tests.reporting.build import EXPERIMENT, validation, write_run
from tests.reporting.test_runs import SWEEP, run

ON_POLICY = {"train_batch_size": 8, "rollout_batch_size": 8, "epochs_per_rollout_batch": 1}


def reference(*answers, seconds=2.0, keys=("learning_rate",), **values):
    rows = tuple(validation(10 * at, answer, seconds=seconds * 10 * at) for at, answer in enumerate(answers))
    one = Configuration({"learning_rate": 3e-4}, (Run("r", {"seed": 0, **values}, validation=rows),))
    return Reference("earlier", "grpo", keys, one)


def test_a_reference_says_whose_winner_it_is():
    assert reference(0.1).label == "reference: earlier, learning_rate = 3e-4"
    assert reference(0.1, keys=()).label == "reference: earlier"
    assert reference(0.1, **ON_POLICY).label == "on-policy reference: earlier, learning_rate = 3e-4"


@pytest.mark.parametrize("changed", [{"train_batch_size": 4}, {"epochs_per_rollout_batch": 2}])
def test_a_batch_used_twice_or_in_parts_is_off_policy(changed):
    one = reference(0.1, **(ON_POLICY | changed))
    assert not on_policy("grpo", one.configuration)
    assert on_policy("grpo", reference(0.1, **ON_POLICY).configuration)
    assert not on_policy("sft", reference(0.1, **ON_POLICY).configuration)


def plan(folder, chosen):
    """Two learning rates of two seeds; `chosen` is what the winner file says."""
    runs = {}
    for rate in (1e-3, 3e-4):
        for seed in (0, 1):
            path = f"learning_rate={rate}/seed={seed}"
            values = {"learning_rate": rate, "seed": seed}
            runs[path] = str(write_run(folder / "runs/earlier" / path, values, [validation(0, 0.1 * seed)]))
    write_json(folder / "winner.json", {"experiment": "earlier", "run": "", "values": chosen})
    return {"earlier": {**EXPERIMENT, "winner": str(folder / "winner.json"), "runs": runs}}


def test_all_seeds_of_the_winner_are_read_and_no_other_run(tmp_path):
    (found,) = read_references(plan(tmp_path, {"learning_rate": 3e-4}))
    assert (found.experiment, found.stage, found.keys) == ("earlier", "grpo", ("learning_rate",))
    assert [one.values for one in found.configuration.runs] == [
        {"learning_rate": 3e-4, "seed": 0},
        {"learning_rate": 3e-4, "seed": 1},
    ]


def test_a_winner_that_no_run_has_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"winner\.json: says .*0\.5.*, which no run of earlier has; run select again"):
        read_references(plan(tmp_path, {"learning_rate": 0.5}))


def test_both_are_read_where_the_shorter_of_them_ended():
    """Here: steps 0, 10, 20 in 0, 20, 40 s. There: the same steps in three times the time, and one step further."""
    here = Configuration(
        {}, (Run("p", {"seed": 0}, validation=tuple(validation(*at) for at in ((0, 0.1), (10, 0.4), (20, 0.7)))),)
    )
    there = reference(0.1, 0.5, 0.6, 0.8, seconds=6.0)
    assert against(here, there) == (
        "Beside the reference: earlier, learning_rate = 3e-4: "
        "final answer reward 0.550 here, 0.633 there (0.083 behind); "  # means of the last three after step 0
        "after 20 optimiser steps the curves stand at 0.700 here, 0.600 there (0.100 ahead); "
        "after 40 s the curves stand at 0.700 here, 0.367 there (0.333 ahead)."  # two thirds of the way from 0.1 to 0.5
    )


def test_no_lead_is_called_level_and_other_questions_are_named():
    here = Configuration({}, (Run("p", {"validation": "easy", "prompt": "r1_zero"}, validation=(validation(0, 0.1),)),))
    said = against(here, reference(0.1, validation="hard", prompt="r1_zero"))
    assert "final answer reward 0.100 here, 0.100 there (level)" in said
    assert said.endswith(
        "They answered different questions (100 of easy by r1_zero here, 100 of hard by r1_zero there), so the two are "
        "not one measure."
    )


def test_a_run_that_never_validated_is_beside_the_others_all_the_same():
    never = against(Configuration({}, (Run("p", {}, status="diverged"),)), reference(0.1, 0.5))
    assert never.endswith("final answer reward 0.000 here, 0.500 there (0.500 behind).")
    at_the_start = Configuration({}, (Run("p", {}, validation=(validation(0, 0.2),)),))
    assert against(at_the_start, reference(0.1, 0.5)).endswith("0.200 here, 0.500 there (0.300 behind).")


def test_references_stand_last_in_tables_and_are_marked():
    order = ranked(configurations([run(1e-3, 0, 0.2), run(3e-4, 0, 0.9)], SWEEP))
    best = reference(0.95, 0.99)
    header, rows = tables.configuration_table(order, [best])
    assert [row[0] for row in rows] == ["3e-4", "1e-3", best.label]
    assert rows[-1][header.index("final reward")] == "0.990"
    assert [row[0] for row in tables.run_table(order, [best])[1]] == ["3e-4", "1e-3", best.label]
    (mine,) = [row for row in tables.reference_rows([best]) if row["row"] == "reference run"]
    assert (mine["reference"], mine["learning_rate"], mine["best_answer_reward"]) == ("earlier", None, 0.99)
