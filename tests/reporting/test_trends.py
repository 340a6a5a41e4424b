import math

import pytest

from stages.reporting.readings import readings
from stages.reporting.runs import Configuration, Run, configurations, ranked
from stages.reporting.trends import gradient_norm, length, trends
from tests.reporting.build import train, validation


def run(loss, seed=0, norms=(1.0, 3.0), lengths=(10.0, 20.0), **more):
    rows = tuple(
        train(step, 0.5, gradient_norm=norm, length=long)
        for step, (norm, long) in enumerate(zip(norms, lengths, strict=True), 1)
    )
    return Run(
        f"{loss}/{seed}", {"loss_type": loss, "seed": seed}, train=rows, validation=(validation(0, 0.1),), **more
    )


def order_of(*runs):
    return ranked(configurations(runs, {"grid": {"loss_type": []}}))


def test_the_norm_is_the_mean_over_the_run_then_over_seeds():
    seeds = Configuration({}, (run("a", 0, (1.0, 3.0)), run("a", 1, (4.0, math.inf))))
    assert gradient_norm(seeds) == 3.0
    assert gradient_norm(Configuration({}, (Run("p", {}),))) is None


def test_lengths_are_means_of_three_steps_at_both_ends():
    long = run("a", norms=(1.0,) * 5, lengths=(10.0, 20.0, 30.0, 40.0, 80.0))
    assert length(Configuration({}, (long,))) == (20.0, 50.0)
    assert length(Configuration({}, (long, run("a", 1)))) == (17.5, pytest.approx(32.5))


def test_one_sentence_each_in_the_order_of_the_values():
    norms, lengths = trends(order_of(run("b", norms=(0.5, 0.5)), run("a")))
    assert norms == "Gradient norm before clipping, mean over the run: 2.000 (a), 0.500 (b)."
    assert lengths == (
        "Response length in training, first to last (means of 3 steps): 15.0 to 15.0 tokens (a), "
        "15.0 to 15.0 tokens (b)."
    )


def test_of_many_configurations_the_two_ends_are_named():
    runs = [run(f"loss {n}", norms=(n, n), lengths=(10.0,) * 2) for n in (3.0, 1.0, 5.0, 2.0, 4.0)]
    norms, _ = trends(order_of(*runs))
    assert norms.endswith("at one end 1.000 (loss 1.0), at the other 5.000 (loss 5.0), of 5 configurations.")


def test_a_single_configuration_needs_no_name():
    only = Configuration({}, (run("a"),))
    assert trends([only])[0] == "Gradient norm before clipping, mean over the run: 2.000."


def test_fine_tuning_has_no_lengths_of_its_own():
    rows = tuple(row | {"reward": None} for row in run("a").train)
    assert trends(order_of(Run("p", {"loss_type": "a"}, train=rows))) == []


def test_readings_leave_out_what_has_no_subject():
    assert len(readings(order_of(run("a"), run("b")))) == 2
    assert readings(order_of(Run("p", {"loss_type": "a"}, status="diverged"))) == []


def test_steps_without_a_signal_are_counted():
    rows = tuple(train(step, 0.0, skipped=int(step < 3)) for step in range(1, 9))
    found = order_of(Run("p", {"loss_type": "a", "seed": 0}, train=rows))
    assert trends(found)[-1] == "No response had a signal in 2 of 8 optimiser steps (25.0 %): they moved nothing."
    assert not any("signal" in said for said in trends(order_of(run("a"))))
