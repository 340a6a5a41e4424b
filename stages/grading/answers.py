"""What an answer can be, above the level of expressions."""

from dataclasses import dataclass

from stages.grading.nodes import Node
from stages.grading.units import Unit


@dataclass(frozen=True)
class Value:
    """A folded expression, with the unit written behind or before it."""

    node: Node
    unit: Unit | None = None


@dataclass(frozen=True)
class Rounded:
    """`exact ≈ decimal` where the decimal rounds the exact value; both are stated."""

    exact: Value
    decimal: Value


@dataclass(frozen=True)
class Named:
    """`name = value` or `name in value`; `difference` is left minus right side where both are expressions."""

    name: str
    value: "Answer"
    difference: Node | None = None


@dataclass(frozen=True)
class Listing:
    """Several answers. `style` is `list` (bare commas), `set` (braces) or the two brackets of a tuple."""

    style: str
    items: tuple


@dataclass(frozen=True)
class RealSet:
    """A set of real numbers as sorted disjoint intervals; `name` is the variable of an inequality, if any."""

    pieces: tuple
    name: str | None = None


@dataclass(frozen=True)
class Grid:
    """A matrix, as rows of expressions; `fence` tells a determinant from a matrix."""

    rows: tuple
    fence: str


@dataclass(frozen=True)
class Ratio:
    terms: tuple


@dataclass(frozen=True)
class Clock:
    """A time of day, `half` being `a`, `p` or None; `ratio` says that it may also be read as one (`3:10`)."""

    numbers: tuple[int, ...]
    half: str | None
    ratio: bool


@dataclass(frozen=True)
class Based:
    """A numeral with its base, `204_5`."""

    digits: str
    base: int


@dataclass(frozen=True)
class Equation:
    difference: Node


@dataclass(frozen=True)
class Inequality:
    """`difference` compared with zero by `<`, `<=` or `!=` (greater-than is turned around)."""

    difference: Node
    relation: str


Answer = Value | Rounded | Named | Listing | RealSet | Grid | Ratio | Clock | Based | Equation | Inequality
