"""Expression nodes: the whole of what an answer's mathematics may consist of."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Num:
    """An exact rational; `places` counts the digits after the decimal point of a literal (None for other forms)."""

    value: Fraction
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Const:
    """`pi`, `e`, `i` or `inf`."""

    name: str


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable with its subscript and accents, e.g. `x`, `a_{n}`, `vec{v}`."""

    name: str


@dataclass(frozen=True, slots=True)
class Add:
    terms: tuple


@dataclass(frozen=True, slots=True)
class Mul:
    factors: tuple


@dataclass(frozen=True, slots=True)
class Div:
    above: "Node"
    below: "Node"


@dataclass(frozen=True, slots=True)
class Pow:
    base: "Node"
    exponent: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A known function (`FUNCTIONS` in numeric.py) of its arguments."""

    name: str
    args: tuple


@dataclass(frozen=True, slots=True)
class Apply:
    """An unknown function, `f(x)`: equal only to itself at equal arguments."""

    name: str
    args: tuple


@dataclass(frozen=True, slots=True)
class Percent:
    inner: "Node"


@dataclass(frozen=True, slots=True)
class Degree:
    inner: "Node"


Node = Num | Const | Sym | Add | Mul | Div | Pow | Call | Apply | Percent | Degree

MINUS_ONE = Num(Fraction(-1))


def negative(node: Node) -> Node:
    """-node, keeping a literal a literal (so that `-0.5` still counts its decimal places)."""
    if isinstance(node, Num):
        return Num(-node.value, node.places)
    return Mul((MINUS_ONE, node))


def children(node: Node) -> tuple:
    match node:
        case Add(terms):
            return terms
        case Mul(factors):
            return factors
        case Div(above, below):
            return (above, below)
        case Pow(base, exponent):
            return (base, exponent)
        case Call(_, args) | Apply(_, args):
            return args
        case Percent(inner) | Degree(inner):
            return (inner,)
    return ()


def symbols(node: Node) -> set[str]:
    """Names of the free variables and unknown functions of an expression."""
    found: set[str] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, Sym):
            found.add(node.name)
        elif isinstance(node, Apply):
            found.add(node.name + "(")
        pending.extend(children(node))
    return found
