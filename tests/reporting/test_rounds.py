import pytest

from stages.reporting import rounds
from stages.reporting.lines import ROUNDS, STEPS, line, validation_panels
from stages.reporting.runs import Configuration, Run, read_run
from stages.store import write_json
from tests.reporting.build import read_json, train, validation, write_run


def iterated(*after, seed=0, start=0.2, steps=2, entropies=(0.9, 0.4)):
    """A run of expert iteration: `steps` optimiser steps a round, the reward `after` each, validated at its end."""
    trained = [train(step, None, round=1 + (step - 1) // steps) for step in range(1, steps * len(after) + 1)]
    rows = [validation(0, start, round=1, token_entropy=entropies[0])]
    rows += [validation(steps * n, score, round=n) for n, score in enumerate(after, 1)]
    rows[-1]["token_entropy"] = entropies[-1]
    counts = {"responses": 40, "questions": 10, "correct": 12, "solved": 7, "duplicates": 2, "kept": 10}
    told = tuple(counts | {"answer_reward": score} for score in after)
    return Run(f"seed={seed}", {"seed": seed}, validation=tuple(rows), train=tuple(trained), rounds=told)


def test_the_rounds_are_read_from_the_status(tmp_path):
    folder = write_run(tmp_path / "seed=0", {"seed": 0}, [validation(0, 0.1)])
    told = [{"responses": 4, "kept": 1, "answer_reward": 0.1}]
    write_json(folder / "status.json", read_json(folder / "status.json") | {"rounds": told})
    assert read_run(folder, "seed=0").rounds == tuple(told)


def test_a_row_for_the_start_and_one_for_each_round():
    header, rows = rounds.rounds_table([Configuration({}, (iterated(0.3, 0.5),))])
    assert header == [
        *("seed", "round", "responses", "questions", "correct", "solved", "duplicates", "kept", "answer reward after")
    ]
    assert rows == [
        ["0", "0", "–", "–", "–", "–", "–", "–", "0.200"],
        ["0", "1", "40", "10", "12 (30 %)", "7", "2", "10", "0.300"],
        ["0", "2", "40", "10", "12 (30 %)", "7", "2", "10", "0.500"],
    ]


def test_the_best_configuration_alone_keeps_the_columns_of_all():
    order = [Configuration({"group_size": size}, (iterated(0.3),)) for size in (4, 2)]
    header, rows = rounds.rounds_table(order, first=1)
    assert header[0] == "group_size"
    assert [row[0] for row in rows] == ["4", "4"]
    assert len(rounds.rounds_table(order)[1]) == 4


def test_every_round_above_the_start_is_said_so_over_seeds():
    one = Configuration({}, (iterated(0.3, 0.5), iterated(0.1, 0.7, seed=1, entropies=(0.7, 0.2))))
    # 0.2 before; (0.3 + 0.1) / 2 is not above it
    assert rounds.rounds_sentence(one) == (
        "Not above the start (0.200) after round 1 of 2 rounds: 0.200, 0.600. "
        "Token entropy fell from 0.800 to 0.300 nats (first to last)."
    )
    assert rounds.rounds_sentence(Configuration({}, (iterated(0.3, 0.5),))).startswith(
        "Above the start (0.200) after every one of 2 rounds: 0.300, 0.500."
    )
    assert rounds.rounds_sentence(Configuration({}, (iterated(0.1, 0.1, 0.4),))).startswith(
        "Not above the start (0.200) after rounds 1 and 2 of 3 rounds: "
    )
    assert rounds.rounds_sentence(Configuration({}, (iterated(0.3),))).startswith(
        "Above the start (0.200) after its one"
    )


@pytest.mark.parametrize(
    ("entropies", "said"), [((0.4, 0.9), "rose from 0.400 to 0.900"), ((0.4, 0.4002), "stayed at 0.400 nats")]
)
def test_entropy_may_rise_or_stay(entropies, said):
    assert said in rounds.entropy_sentence(Configuration({}, (iterated(0.3, entropies=entropies),)))


def test_other_stages_have_no_rounds():
    other = Configuration({}, (Run("p", {"seed": 0}, validation=(validation(0, 0.1), validation(5, 0.2))),))
    assert not rounds.has_rounds([other])
    assert rounds.rounds_sentence(other) == ""
    assert rounds.boundaries(other) == []
    assert ROUNDS not in validation_panels([other])


def test_points_at_the_end_of_each_round():
    seeds = [iterated(0.3, 0.5, steps=2), iterated(0.5, 0.7, seed=1, steps=4)]
    drawn = line(seeds, ROUNDS)
    assert drawn.x == [0, 1, 2]
    assert drawn.middle == pytest.approx([0.2, 0.4, 0.6])
    assert ROUNDS in validation_panels([Configuration({}, tuple(seeds))])


def test_a_round_ends_where_its_last_step_was_and_one_without_steps_where_it_began():
    seeds = (iterated(0.3, 0.5, 0.6, steps=2), iterated(0.3, 0.5, 0.6, seed=1, steps=4))
    assert rounds.boundaries(Configuration({}, seeds)) == [3, 6]  # ends at 2, 4, 6 and at 4, 8, 12
    barren = iterated(0.3, 0.3, 0.5)
    kept = tuple(row for row in (*barren.train, *barren.validation) if row["round"] != 2)
    rest = {name: tuple(row for row in kept if row["kind"] == name) for name in ("train", "validation")}
    assert rounds.boundaries(Configuration({}, (Run("p", {}, rounds=barren.rounds, **rest),))) == [2, 2]
    assert rounds.boundaries(Configuration({}, (iterated(*[0.3] * 13),))) == []


def test_seeds_whose_rounds_differ_in_length_are_joined_by_straight_lines():
    drawn = line([iterated(0.4, 0.6, steps=2), iterated(0.6, 0.8, seed=1, steps=3)], STEPS)
    assert drawn.x == [0, 2, 3, 4]
    # steps 2, 4 at 0.4, 0.6; steps 3, 6 at 0.6, 0.8; between them 0.5 at 3, 0.2 + 2/3 * 0.4 at 2, 0.6 + 1/3 * 0.2 at 4
    assert drawn.low == pytest.approx([0.2, 0.4, 0.5, 0.6])
    assert drawn.high == pytest.approx([0.2, 0.2 + 0.8 / 3, 0.6, 0.6 + 0.2 / 3])
    ((x, y),) = drawn.beyond
    assert x == [4, 6]
    assert y == pytest.approx([0.6 + 0.2 / 3, 0.8])
