import pytest

from stages.reporting import canvas, entropy
from stages.reporting.entropy import Trajectory, sentence, trajectories_table, trajectory
from stages.reporting.runs import Configuration, Run
from tests.reporting.build import train, validation

ON_POLICY = {"train_batch_size": 8, "rollout_batch_size": 8, "epochs_per_rollout_batch": 1}


def run(*points, seed=0, **values):
    """`points`: (answer reward, token entropy) at steps 0, 10, …"""
    rows = tuple(validation(10 * at, reward, token_entropy=nats) for at, (reward, nats) in enumerate(points))
    return Run(f"seed={seed}", {"seed": seed, **values}, validation=rows)


def spent(name, method, *points):
    rewards, entropies = zip(*points, strict=True)
    return Trajectory(name, method, [float(at) for at in range(len(points))], rewards, entropies)


def test_a_trajectory_is_the_mean_over_seeds_at_each_validation():
    seeds = (run((0.2, 1.0), (0.4, 0.5), **ON_POLICY), run((0.4, 0.8), (0.8, 0.1), seed=1, **ON_POLICY))
    found = trajectory("sweep", "grpo", Configuration({}, seeds))
    assert (found.name, found.method) == ("sweep", "on-policy GRPO")
    assert found.seconds == [0, 20]
    assert found.rewards == pytest.approx([0.3, 0.6])
    assert found.entropies == pytest.approx([0.9, 0.3])
    assert found.per_tenth == pytest.approx(0.2)  # 0.6 nats for 0.3 of reward


def test_entropy_of_training_never_stands_in_for_that_of_validations():
    rows = (validation(0, 0.1), validation(10, 0.3))
    trained = (train(1, 0.5, token_entropy=0.9), train(9, 0.5, token_entropy=0.5))
    assert trajectory("sweep", "grpo", Configuration({}, (Run("p", {}, train=trained, validation=rows),))) is None


def test_what_samples_nothing_or_measures_nothing_has_no_trajectory():
    learned = Configuration({}, (run((0.2, 1.0), (0.4, 0.5)),))
    assert trajectory("x", "sft", learned) is None
    assert trajectory("x", "expert_iteration", learned).method == "expert iteration"
    assert trajectory("x", "grpo", Configuration({}, (run((0.2, 1.0)),))) is None
    assert trajectory("x", "grpo", Configuration({}, (Run("p", {}),))) is None


CHEAP = spent("cheap", "on-policy GRPO", (0.2, 0.9), (0.7, 0.4))  # 0.5 nats for 0.5
DEAR = spent("dear", "expert iteration", (0.2, 0.9), (0.3, 0.2), (0.4, 0.3))  # 0.6 nats for 0.2
CONTROL = spent("control", "on-policy GRPO", (0.2, 0.9), (0.2, 0.5))


def test_the_sentence_names_the_cheapest_the_dearest_and_the_lowest():
    assert sentence([DEAR, CONTROL, CHEAP]) == (
        "For each 0.1 of answer reward gained, start to end, cheap (on-policy GRPO) spent the least entropy, 0.100 "
        "nats, and dear (expert iteration) the most, 0.300. dear (expert iteration) ended with the least entropy left, "
        "0.300 nats. No answer reward gained: control."
    )
    assert sentence([CONTROL, CHEAP]).startswith("cheap (on-policy GRPO) ended with the least")


def test_the_table_has_both_ends_of_each():
    header, rows = trajectories_table([CHEAP, CONTROL])
    assert rows[0] == ["cheap", "on-policy GRPO", "0.900 to 0.400", "0.200 to 0.700", "0.100", "1.0 s"]
    assert rows[1][header.index("nats spent per 0.1 gained")] == "–"


def test_a_method_has_one_colour_and_its_experiments_differ():
    figure = entropy.figure([CHEAP, DEAR, CONTROL])
    lines = figure.axes[1].lines
    assert lines[0].get_color() == lines[2].get_color() != lines[1].get_color()
    assert (lines[0].get_linestyle(), lines[0].get_marker()) != (lines[2].get_linestyle(), lines[2].get_marker())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "cheap (on-policy GRPO)",
        "dear (expert iteration)",
        "control (on-policy GRPO)",
    ]
    assert canvas.to_svg(figure) == canvas.to_svg(entropy.figure([CHEAP, DEAR, CONTROL]))
