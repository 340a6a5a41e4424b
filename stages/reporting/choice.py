"""Which configuration of an experiment is passed on: the default, unless another is ahead of it beyond chance.

Later experiments inherit what is chosen here, so that luck would be passed on with it. The arms stand in an order, the
default first; one that did not finish is out. Each later arm takes the place of the one that holds it only where it is
ahead with an interval that leaves out 0. Of arms that are alike, another than the default is then chosen at most 5
times in 100, however many there are, where seeds show how they differ. One seed each cannot: there `seed_noise` must be
no less than the truth, and at two and a half times that it is 14 in 100 of two arms, 30 of six.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stages.reporting.comparison import Comparison, compare
from stages.reporting.measures import SEED_NOISE
from stages.reporting.runs import Configuration, ranked

LUCK = 0.05  # how often arms that are alike may give another than the default


@dataclass(frozen=True)
class Choice:
    """`order`: every configuration, the one that is passed on first. `arms` are what was compared: all of them, or of a
    tuned experiment each arm at its best. `default` holds the place unless beaten; `declared` is the plan's, which
    may not have finished. `beaten` and `lead`: what the winner was compared with last, None for a default that stayed.
    `rivals`: how many configurations could have taken its place.
    """

    order: tuple[Configuration, ...]
    arms: tuple[Configuration, ...]
    declared: Configuration
    default: Configuration
    beaten: Configuration | None = None
    lead: Comparison | None = None
    seed_noise: float = SEED_NOISE
    tuned: tuple[str, ...] = ()
    rivals: int = 1

    @property
    def winner(self) -> Configuration:
        return self.order[0]

    @property
    def best(self) -> Configuration:
        return ranked(self.arms)[0]

    @property
    def second(self) -> Configuration | None:
        """The best of the others."""
        return next(iter(ranked(self.arms)[1:]), None)

    @property
    def level(self) -> float:
        return confidence(self.rivals)

    @property
    def against_best(self) -> Comparison | None:
        """By how much the best arm is ahead of the one that is passed on; None where they are one."""
        same = self.best is self.winner
        return None if same else compare(self.best, self.winner, self.seed_noise, self.level)

    @property
    def decided(self) -> bool:
        """Whether anything but the default's being the default spoke for the winner."""
        if self.lead is not None or self.second is None:
            return True
        if self.best is not self.winner:
            return False
        return not self.second.finished or compare(self.best, self.second, self.seed_noise, self.level).decided


def confidence(rivals: int) -> float:
    """Of each comparison, so that all of them together mislead at most LUCK of the time: a winner is ahead on one side
    alone, which is why one or two rivals need no more than 95 %. Of a tuned arm every configuration is a rival: at its
    best it has the luck of them all, of which the default's, where few of its own are any good, need not have as much.
    """
    return 1 - min(0.05, 2 * LUCK / max(1, rivals))


def choose(found: Iterable[Configuration], plan: Mapping[str, Any]) -> Choice:
    """`plan` is the experiment as the specification has it; its `arms` list the run paths of each arm, the default's
    first, in the order of the config. Without them configurations stand in the order of their paths."""
    found, noise = list(found), plan.get("seed_noise", SEED_NOISE)
    listed = plan.get("arms") or [[run.path for run in one.runs] for one in found]
    groups = [group for paths in listed if (group := [one for one in found if one.path in paths])]
    arms, rivals = [ranked(group)[0] for group in groups], sum(map(len, groups[1:]))
    standing = [one for one in arms if one.finished]
    holder, beaten, lead = (standing or ranked(arms))[0], None, None
    default = holder
    for arm in standing[1:]:
        gap = compare(arm, holder, noise, confidence(rivals))
        if gap.decided and gap.lead > 0:
            holder, beaten, lead = arm, holder, gap
    others = [one for one in ranked(arms) if one is not holder]
    behind = [one for one in ranked(found) if not any(one is arm for arm in arms)]
    return Choice(
        order=(holder, *others, *behind),
        arms=tuple(arms),
        declared=arms[0],
        default=default,
        beaten=beaten,
        lead=lead,
        seed_noise=noise,
        tuned=tuple(sorted(plan.get("tune") or ())),
        rivals=rivals,
    )
