"""Exact rational arithmetic on expressions, with every size checked before the work is done."""

from fractions import Fraction
from math import comb, factorial, gcd, lcm

from stages.grading.limits import MAX_FACTORIAL, MAX_INTEGER_BITS, TooBig, Unreadable
from stages.grading.nodes import (
    MINUS_ONE,
    Add,
    Apply,
    Call,
    Const,
    Degree,
    Div,
    Mul,
    Node,
    Num,
    Percent,
    Pow,
    children,
)


def fold(node: Node) -> Node:
    """The same expression with every rational part worked out.

    Raises TooBig where a value would pass MAX_INTEGER_BITS and Unreadable at a division by zero.
    """
    match node:
        case Add(terms):
            return _fold_sum([fold(term) for term in terms])
        case Mul(factors):
            return _fold_product([fold(factor) for factor in factors])
        case Div(above, below):
            return _fold_quotient(fold(above), fold(below))
        case Pow(base, exponent):
            return _fold_power(fold(base), fold(exponent))
        case Call(name, args):
            return _fold_call(name, tuple(fold(arg) for arg in args))
        case Apply(name, args):
            return Apply(name, tuple(fold(arg) for arg in args))
        case Percent(inner):
            return _fold_quotient(fold(inner), Num(Fraction(100)))
        case Degree(inner):
            return _fold_product([fold(inner), Num(Fraction(1, 180)), Const("pi")])
    return node


def constant_bits(node: Node) -> int:
    """Total size in bits of the rationals of a folded expression."""
    if isinstance(node, Num):
        return size(node.value)
    return sum(constant_bits(child) for child in children(node))


def size(value: Fraction) -> int:
    return value.numerator.bit_length() + value.denominator.bit_length()


def _checked(value: Fraction) -> Num:
    if size(value) > 2 * MAX_INTEGER_BITS:
        raise TooBig(f"a number of more than {MAX_INTEGER_BITS} bits")
    return Num(value)


def _fold_sum(terms: list[Node]) -> Node:
    rest = [term for term in terms if not isinstance(term, Num)]
    total = Fraction(0)
    for term in terms:
        if isinstance(term, Num):
            total = _checked(total + term.value).value
    if not rest:
        return Num(total)
    kept = rest if total == 0 else [*rest, Num(total)]
    return kept[0] if len(kept) == 1 else Add(tuple(kept))


def _fold_product(factors: list[Node]) -> Node:
    rest = [factor for factor in factors if not isinstance(factor, Num)]
    total = Fraction(1)
    for factor in factors:
        if isinstance(factor, Num):
            total = _checked(total * factor.value).value
    if not rest:
        return Num(total)
    kept = rest if total == 1 else [Num(total), *rest]
    return kept[0] if len(kept) == 1 else Mul(tuple(kept))


def _fold_quotient(above: Node, below: Node) -> Node:
    if isinstance(below, Num):
        if below.value == 0:
            raise Unreadable("division by zero")
        return _fold_product([Num(1 / below.value), above])
    return Div(above, below)


def _fold_power(base: Node, exponent: Node) -> Node:
    if not (isinstance(base, Num) and isinstance(exponent, Num)):
        return Pow(base, exponent)
    value, power = base.value, exponent.value
    if value == 0:
        if power <= 0:
            raise Unreadable("zero to a power that is not positive")
        return Num(Fraction(0))
    root = _exact_root(value, power.denominator)
    if root is None:
        return Pow(base, exponent)
    if abs(root) != 1 and size(root) * abs(power.numerator) > 2 * MAX_INTEGER_BITS:
        raise TooBig(f"a power of more than {MAX_INTEGER_BITS} bits")
    if abs(root) == 1:
        return Num(root if power.numerator % 2 else Fraction(1))
    return Num(root**power.numerator)


def _exact_root(value: Fraction, index: int) -> Fraction | None:
    """The rational root of a positive rational, None where it is irrational or the value is negative."""
    if index == 1:
        return value
    if value < 0:
        return None
    above, below = _integer_root(value.numerator, index), _integer_root(value.denominator, index)
    return None if above is None or below is None else Fraction(above, below)


def _integer_root(number: int, index: int) -> int | None:
    """`number ** (1/index)` if whole, by Newton's iteration from above."""
    if number < 2:
        return number
    if index >= number.bit_length():
        return None
    guess = 1 << -(-number.bit_length() // index)
    while True:
        better = ((index - 1) * guess + number // guess ** (index - 1)) // index
        if better >= guess:
            return guess if guess**index == number else None
        guess = better


def _fold_call(name: str, args: tuple) -> Node:
    if not all(isinstance(arg, Num) for arg in args):
        return Call(name, args)
    values = [arg.value for arg in args]
    whole = all(value.denominator == 1 for value in values)
    match name:
        case "abs":
            return Num(abs(values[0]))
        case "floor":
            return Num(Fraction(values[0].__floor__()))
        case "ceil":
            return Num(Fraction(values[0].__ceil__()))
        case "sgn":
            return Num(Fraction((values[0] > 0) - (values[0] < 0)))
        case "min" | "max":
            return Num(min(values) if name == "min" else max(values))
        case "gcd" | "lcm" if whole:
            return Num(Fraction((gcd if name == "gcd" else lcm)(*(int(value) for value in values))))
        case "factorial" if whole and values[0] >= 0:
            if values[0] > MAX_FACTORIAL:
                raise TooBig(f"a factorial past {MAX_FACTORIAL}!")
            return _checked(Fraction(factorial(int(values[0]))))
        case "binom" if whole and min(values) >= 0:
            if max(values) > MAX_FACTORIAL:
                raise TooBig(f"a binomial coefficient past {MAX_FACTORIAL}")
            return _checked(Fraction(comb(int(values[0]), int(values[1]))))
        case "root":
            root = _exact_root(abs(values[0]), int(values[1]))
            return Call(name, args) if root is None else Num(-root if values[0] < 0 else root)
        case "ln" if values[0] == 1:
            return Num(Fraction(0))
        case "ln" if values[0] == 0:
            raise Unreadable("the logarithm of zero")
    return Call(name, args)


__all__ = ["MINUS_ONE", "constant_bits", "fold", "size"]
