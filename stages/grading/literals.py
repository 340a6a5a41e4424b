"""Building nodes from names and digits."""

import re
from fractions import Fraction

from stages.grading.limits import TooBig, Unreadable
from stages.grading.nodes import Add, Call, Const, Div, Mul, Node, Num, Pow, Sym
from stages.grading.vocabulary import SEVERAL_ARGUMENTS

_MAX_DECIMAL_EXPONENT = 1_000
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\overline\s*\{([0-9]+)\}")


def number_literal(text: str) -> Num:
    """An integer, decimal, scientific or repeating decimal literal as an exact rational."""
    if match := _REPEATING.fullmatch(text):
        whole, head, cycle = match.groups()
        tail = Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(head))
        return Num(Fraction(int((whole + head) or "0"), 10 ** len(head)) + tail)
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, part = mantissa.partition(".")
    power = int(exponent or "0")
    if abs(power) > _MAX_DECIMAL_EXPONENT:
        raise TooBig(f"a decimal exponent of {power}; the limit is {_MAX_DECIMAL_EXPONENT}")
    value = Fraction(int(whole + part)) * Fraction(10) ** (power - len(part))
    return Num(value, max(0, len(part) - power) if part or exponent else None)


def apply_function(name: str, arguments: tuple, base: Node | None) -> Node:
    """A known function; a logarithm without a base keeps its unknown base, so it never equals \\ln."""
    if len(arguments) != 1 and name not in SEVERAL_ARGUMENTS:
        raise Unreadable(f"{name} takes one argument")
    if name == "exp":
        return Pow(Const("e"), arguments[0])
    if name == "cis":
        return Add((Call("cos", arguments), Mul((Const("i"), Call("sin", arguments)))))
    if name not in ("log", "lg"):
        return Call(name, arguments)
    logarithm = Call("ln", arguments)
    if base is None and name == "log":
        return Mul((logarithm, Sym("1/ln(base)")))
    return Div(logarithm, Call("ln", (base if name == "log" else Num(Fraction(10)),)))
