"""How each method spends entropy: that of sampled tokens against the answer reward it bought, and against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stages.reporting import canvas, wording
from stages.reporting.lines import Panel, line, time_unit
from stages.reporting.measures import ANSWERS
from stages.reporting.references import on_policy
from stages.reporting.runs import Configuration, Run, measured

METHODS = {"expert iteration": "#d55e00", "on-policy GRPO": "#0072b2", "off-policy GRPO": "#009e73"}
LINESTYLES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
HEIGHT = 3.3
COLUMNS = (ANSWERS.column, "token_entropy")


@dataclass(frozen=True)
class Trajectory:
    """The winner of one experiment at each of its validations, mean over seeds. Entropy in nats per token."""

    name: str
    method: str
    seconds: Sequence[float]
    rewards: Sequence[float]
    entropies: Sequence[float]

    @property
    def per_tenth(self) -> float | None:
        """Nats of entropy lost, start to end, for each 0.1 of answer reward gained; None where none was gained."""
        gained = self.rewards[-1] - self.rewards[0]
        return 0.1 * (self.entropies[0] - self.entropies[-1]) / gained if gained > 0 else None


def method_of(stage: str, one: Configuration) -> str | None:
    if stage == "grpo":
        return "on-policy GRPO" if on_policy(stage, one) else "off-policy GRPO"
    return "expert iteration" if stage == "expert_iteration" else None


def trajectory(name: str, stage: str, one: Configuration) -> Trajectory | None:
    """None where the stage does not sample its own training data, or fewer than two validations have an entropy."""
    method = method_of(stage, one)
    runs = [replace(run, validation=_with_entropy(run)) for run in one.runs]
    reward, entropy = (line(runs, Panel("", key, "validation", x="seconds")) for key in COLUMNS)
    if method is None or reward is None or entropy is None or len(entropy.x) < 2:
        return None
    return Trajectory(name, method, entropy.x, reward.middle, entropy.middle)


def _with_entropy(run: Run) -> tuple[dict[str, Any], ...]:
    """Validation rows with reward and entropy."""
    return tuple(row for row in run.validation if all(measured(row.get(key)) for key in COLUMNS))


def trajectories_table(found: Sequence[Trajectory]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for one in found:
        ends = [f"{wording.fixed(values[0])} to {wording.fixed(values[-1])}" for values in (one.entropies, one.rewards)]
        rows.append([one.name, one.method, *ends, wording.fixed(one.per_tenth), wording.duration(one.seconds[-1])])
    header = ["winner of", "method", "entropy (nats)", "answer reward", "nats spent per 0.1 gained", "after"]
    return header, rows


def sentence(found: Sequence[Trajectory]) -> str:
    """Who paid least and most entropy for reward, and who ended with least of it left."""
    paid = sorted((one for one in found if one.per_tenth is not None), key=lambda one: (one.per_tenth, one.name))
    said = []
    if len(paid) > 1:
        said += [
            f"For each 0.1 of answer reward gained, start to end, {_named(paid[0])} spent the least entropy, "
            f"{wording.fixed(paid[0].per_tenth)} nats, and {_named(paid[-1])} the most, "
            f"{wording.fixed(paid[-1].per_tenth)}."
        ]
    lowest = min(found, key=lambda one: (one.entropies[-1], one.name))
    said += [f"{_named(lowest)} ended with the least entropy left, {wording.fixed(lowest.entropies[-1])} nats."]
    gained_nothing = [one.name for one in found if one.per_tenth is None]
    if gained_nothing:
        said += [f"No answer reward gained: {wording.listed(gained_nothing)}."]
    return " ".join(said)


def _named(one: Trajectory) -> str:
    return f"{one.name} ({one.method})"


def figure(found: Sequence[Trajectory]) -> Any:
    """Left: entropy against answer reward, from the ring to the filled mark. Right: entropy against wall-clock."""
    matplotlib = canvas.matplotlib()
    scale, unit = time_unit(max(one.seconds[-1] for one in found))
    columns = canvas.legend_columns([_named(one) for one in found])
    head = 0.42 + 0.2 * -(-len(found) // columns)
    with matplotlib.rc_context(canvas.STYLE):
        drawn = matplotlib.figure.Figure(figsize=(canvas.WIDTH, HEIGHT + head), facecolor=canvas.PAPER)
        left, right = canvas.axes_of_row(drawn, 2, 2, 0.0, HEIGHT)
        handles = {}
        for one, style in zip(found, _styles(found), strict=True):
            _trajectory(left, one, style)
            (handles[_named(one)],) = right.plot([x / scale for x in one.seconds], one.entropies, **style)
        for axes, title, x in (
            (left, "against answer reward", "validation answer reward"),
            (right, "by wall-clock", unit),
        ):
            axes.set_title(f"Token entropy (nats) {title}")
            axes.set_xlabel(x)
            axes.set_ylim(bottom=0.0)
        drawn.text(
            0.008, 1 - 0.10 / (HEIGHT + head), "How each method spends entropy", fontsize=13, weight="bold", va="top"
        )
        canvas.legend(drawn, handles, columns, 0.36)
    return drawn


def _styles(found: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """A colour for each method; among its experiments, line styles and then markers tell."""
    seen = dict.fromkeys(METHODS, 0)
    styles = []
    for one in found:
        at = seen[one.method]
        seen[one.method] += 1
        mark = {"marker": canvas.MARKERS[at % len(canvas.MARKERS)], "markersize": 4, "markevery": _every(one)}
        dash = LINESTYLES[at % len(LINESTYLES)]
        styles.append({"color": METHODS[one.method], "linestyle": dash, "linewidth": 1.5, **mark})
    return styles


def _every(one: Trajectory) -> int:
    return max(1, len(one.seconds) // 8)


def _trajectory(axes: Any, one: Trajectory, style: dict[str, Any]) -> None:
    axes.plot(one.rewards, one.entropies, **{**style, "marker": "", "alpha": 0.85})
    mark = {"marker": style["marker"], "color": style["color"], "markersize": 6.5, "linestyle": "", "zorder": 4}
    axes.plot(one.rewards[:1], one.entropies[:1], **mark, markerfacecolor=canvas.PAPER)
    axes.plot(one.rewards[-1:], one.entropies[-1:], **mark)
