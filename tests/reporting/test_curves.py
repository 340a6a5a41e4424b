import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from stages.reporting import canvas, curves
from stages.reporting.lines import (
    DIAGNOSTICS,
    EXAMPLES,
    LENGTHS,
    SECONDS,
    STEPS,
    examples_seen,
    line,
    longest,
    smooth,
    time_unit,
    validation_panels,
    with_data,
)
from stages.reporting.references import Reference
from stages.reporting.runs import Configuration, Run, by_value, configurations, ranked
from tests.reporting.build import train, validation
from tests.reporting.test_rounds import iterated

ENTROPY, TRAINED = (
    next(panel for panel in DIAGNOSTICS if panel.column == name) for name in ("token_entropy", "reward")
)


def run(value, seed, steps, **more):
    rows = tuple(validation(step, 0.1 * seed + 0.01 * step) for step in range(0, steps + 1, 5))
    trained = tuple(train(step, 0.5) for step in range(1, steps + 1))
    return Run(f"{value}/{seed}", {"key": value, "seed": seed}, validation=rows, train=trained, **more)


def order_of(*runs):
    return ranked(configurations(runs, {"grid": {"key": []}}))


def test_mean_and_range_cover_the_steps_all_seeds_reached():
    drawn = line([run("a", 0, 20), run("a", 2, 10)], STEPS)
    assert drawn.x == [0, 5, 10]
    assert drawn.middle == pytest.approx([0.1, 0.15, 0.2])
    assert drawn.low == pytest.approx([0.0, 0.05, 0.1])
    assert drawn.high == pytest.approx([0.2, 0.25, 0.3])
    ((x, y),) = drawn.beyond
    assert x == [10, 15, 20]
    assert y == pytest.approx([0.1, 0.15, 0.2])


def test_wall_clock_is_the_mean_time_at_each_step():
    slow = tuple({**row, "seconds": 3 * row["seconds"]} for row in run("a", 0, 10).validation)
    drawn = line([run("a", 0, 10), Run("b", {}, validation=slow)], SECONDS)
    assert drawn.x == [0, 20, 40]


def test_smoothing_invents_nothing_at_the_ends():
    assert smooth([0.0, 3.0, 6.0, 3.0], 3) == [1.5, 3.0, 4.0, 4.5]
    assert smooth([5.0, 1.0], 1) == [5.0, 1.0]


def test_a_panel_without_data_is_left_out_and_lengths_may_come_from_validation():
    rows = tuple(validation(step, 0.1, length=30.0, reward=0.1) for step in (0, 5))
    only = Run("p", {}, validation=rows)
    found = configurations([only], {})
    assert with_data(found, DIAGNOSTICS) == [DIAGNOSTICS[0]]
    assert with_data(found, LENGTHS) == [LENGTHS[0]]
    assert line([only], ENTROPY) is None


def test_a_step_that_broke_leaves_the_curve_before_it_as_it_was():
    rows = tuple(train(step, 0.5) for step in range(1, 30)) + (train(30, math.nan),)
    whole, broken = (line([Run("p", {}, train=some)], TRAINED) for some in (rows[:-1], rows))
    assert broken == whole


def test_long_runs_are_thinned_and_keep_their_ends():
    rows = tuple(train(step, 0.5) for step in range(1, 2001))
    drawn = line([Run("p", {}, train=rows)], TRAINED)
    assert len(drawn.x) == 160
    assert (drawn.x[0], drawn.x[-1]) == (1, 2000)


def test_time_is_shown_in_a_unit_people_can_picture():
    assert time_unit(longest(order_of(run("a", 0, 20)))) == (1.0, "seconds")
    late = Run("p", {"key": 1}, validation=(validation(0, 0.1, seconds=5000.0),))
    assert time_unit(longest(order_of(late))) == (60.0, "minutes")


def test_the_same_runs_give_the_same_bytes_and_labels_show_what_varies():
    runs = [run("a$b_c<", 0, 10), run("a$b_c<", 1, 10), run("other", 0, 5, status="diverged")]
    first, second = (canvas.to_svg(curves.experiment_figure("sweep & more", order_of(*runs))) for _ in range(2))
    assert first == second
    assert "<dc:date>" not in first
    texts = ["".join(node.itertext()) for node in ElementTree.fromstring(first).iter() if node.tag.endswith("}text")]
    for wanted in (
        "sweep & more",
        "a$b_c<",
        "other (× diverged)",
        "Validation answer reward, by wall-clock",
        "Train reward",
    ):
        assert wanted in texts
    assert texts.index("a$b_c<") < texts.index("other (× diverged)")


def test_colours_follow_the_values_not_the_ranking():
    def colours(best):
        runs = [Run(str(key), {"key": key}, validation=(validation(0, 0.9 if key == best else 0.1),)) for key in (1, 2)]
        axes = curves.experiment_figure("x", order_of(*runs)).axes[0]
        return [drawn.get_color() for drawn in axes.lines], [drawn.get_linewidth() for drawn in axes.lines]

    assert colours(1)[0] == colours(2)[0]
    assert colours(1)[1] == colours(2)[1][::-1]


def test_an_experiment_that_never_validated_still_has_a_figure():
    svg = canvas.to_svg(curves.experiment_figure("empty", order_of(Run("p", {"key": 1}, status="diverged"))))
    assert ">empty<" in svg


def test_inlined_svg_is_self_contained_and_takes_the_colours_of_the_page():
    svg = canvas.to_svg(
        curves.pretraining_figure([{"step": s, "seconds": 1.0 * s, "loss": 9.0 / s} for s in (1, 2, 3)])
    )
    inlined = canvas.inline(svg, "here")
    assert inlined.startswith("<svg ")
    assert "http" not in inlined
    assert "var(--ink)" in inlined
    assert canvas.INK not in inlined
    assert not re.search(r'<svg [^>]*width="', inlined)
    ids = set(re.findall(r'id="([^"]*)"', inlined))
    assert all(name.startswith("here-") for name in ids)
    assert set(re.findall(r'href="#([^"]*)"', inlined)) | set(re.findall(r"url\(#([^)]*)\)", inlined)) <= ids


def test_png_bytes_are_stable():
    figures = [curves.pretraining_figure([{"step": s, "seconds": 1.0, "loss": 1.0} for s in (1, 2)]) for _ in range(2)]
    first, second = map(canvas.to_png, figures)
    assert first == second
    assert first.startswith(b"\x89PNG")


def earlier(steps, **more):
    return Reference("earlier", "grpo", (), Configuration({}, (run("x", 3, steps, **more),)))


def test_a_reference_is_dashed_grey_under_the_others_and_in_a_legend_of_its_own():
    figure = curves.experiment_figure("x", order_of(run("a", 0, 20), run("b", 1, 20)), [earlier(20)])
    own, other, reference = figure.axes[0].lines
    assert reference.get_color() == canvas.MUTED
    assert reference.get_linestyle() == "--"
    assert reference.get_zorder() < min(own.get_zorder(), other.get_zorder())
    legends = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
    assert legends == [["a", "b"], ["reference: earlier"]]
    assert list(reference.get_ydata()) == pytest.approx([0.3 + 0.01 * step for step in (0, 5, 10, 15, 20)])


def test_a_reference_that_went_on_much_longer_is_cut():
    def limit(steps):
        return curves.experiment_figure("x", order_of(run("a", 0, 20)), [earlier(steps)]).axes[0].get_xlim()[1]

    assert limit(30) > 30
    assert limit(200) == 40


def test_a_reference_brings_no_panel_of_its_own():
    def titles(references):
        only = Run("p", {"key": 1}, validation=(validation(0, 0.1), validation(5, 0.2)))
        return [axes.get_title(loc="left") for axes in curves.experiment_figure("x", order_of(only), references).axes]

    assert titles([earlier(20)]) == titles([])


def test_sizes_are_compared_by_examples_too():
    """Steps of 4 and of 16 examples: the same number of steps is not the same amount of data."""

    def sized(size):
        trained = tuple(train(step, None, num_examples=size * step) for step in range(1, 11))
        rows = tuple(validation(step, 0.1) for step in (0, 5, 10))
        return Run(str(size), {"train_batch_size": size}, train=trained, validation=rows)

    order = ranked(configurations([sized(4), sized(16)], {"grid": {"train_batch_size": []}}))
    assert validation_panels(order)[-1] == EXAMPLES
    assert [line(one.runs, EXAMPLES).x for one in by_value(order)] == [[0, 20, 40], [0, 80, 160]]
    assert EXAMPLES not in validation_panels(order_of(run("a", 0, 20), run("b", 0, 20)))


def test_examples_seen_are_those_of_the_last_step_by_then():
    trained = (train(2, None, num_examples=8), train(4, None, num_examples=12))
    assert examples_seen(Run("p", {}, train=trained), [0, 1, 2, 3, 4, 9]) == [0, 0, 8, 8, 12, 12]


def test_the_wall_clock_axis_ends_at_the_budget():
    one = run("a", 0, 20)
    limited = Run("p", {"key": "a", "max_seconds": 30.0}, validation=one.validation)
    axes = curves.experiment_figure("x", order_of(limited)).axes[1]
    assert axes.get_xlim() == (0.0, 30.0)
    assert axes.get_xlabel() == "seconds; the axis ends at the budget"


def test_rounds_have_a_panel_and_dotted_ends_and_a_reference_is_level_there():
    figure = curves.experiment_figure("x", [Configuration({}, (iterated(0.3, 0.5, 0.6),))], [earlier(20)])
    by_title = {axes.get_title(loc="left"): axes for axes in figure.axes}
    level = by_title["Validation answer reward, by round"].lines[1]
    assert list(level.get_ydata()) == pytest.approx([0.3 + 0.15] * 2)  # its last validations at steps 10, 15, 20
    dotted = [drawn.get_xdata()[0] for drawn in by_title["Validation answer reward"].lines[2:]]
    assert dotted == [2, 4]
    assert len(by_title["Token entropy (nats)"].lines) == 1 + 2, "of validations, which the reference has without it"
    assert len(by_title["Validation format reward"].lines) == 2


def test_what_is_said_of_a_policys_samples_is_never_of_what_it_imitates():
    """Fine-tuning's training rows tell of worked responses: another length, another entropy, under other names."""
    taught = tuple(train(step, None, token_entropy=9.0, length=99.0, target_entropy=0.1) for step in (1, 2))
    sampled = tuple(validation(step, 0.5, token_entropy=0.5, length=30.0) for step in (0, 1, 2))
    only = Run("p", {}, train=taught, validation=sampled)
    for panel in (*DIAGNOSTICS, *LENGTHS):
        if panel.column in ("token_entropy", "length"):
            assert set(line([only], panel).middle) == {0.5 if panel.column == "token_entropy" else 30.0}
        if panel.column == "target_entropy":
            assert set(line([only], panel).middle) == {0.1}
