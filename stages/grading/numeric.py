"""Evaluation of expressions at high precision, and the test whether two of them are the same function.

Two folded expressions are compared at fixed points with a precision larger than all their constants together, so
a difference hidden in the 100th digit is still seen. A difference that stays as the precision doubles refutes; one
that vanishes with the precision accepts. mpmath is imported on first use.
"""

import threading
from fractions import Fraction
from functools import lru_cache

from stages.grading.exact import constant_bits
from stages.grading.limits import MAX_EXP_ARGUMENT, MAX_NUMERIC_BITS, MAX_STEPS, TooBig, Unreadable
from stages.grading.nodes import Add, Apply, Call, Const, Div, Mul, Node, Num, Pow, Sym, symbols

_GUARD_BITS = 64
_local = threading.local()


class Undefined(Exception):
    """The expression has no value at a point."""


class Budget:
    """Counts node evaluations of one pair; the count depends on the two strings alone."""

    def __init__(self) -> None:
        self.steps = 0

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise TooBig(f"more than {MAX_STEPS} evaluation steps")


# Ranges of the test points: small, medium and large positive values, then negative and mixed signs.
_RANGES = ((0.2, 0.9), (1.1, 2.9), (5.0, 9.0), (150.0, 400.0), (-0.9, -0.2), (-7.0, -3.0), (-3.0, 3.0))
_POSITIVE = 4
_USABLE = 2  # points at which both sides must have a value


def context():
    """This thread's mpmath context (contexts hold their precision, so they are not shared)."""
    if not hasattr(_local, "mp"):
        from mpmath.ctx_mp import MPContext

        _local.mp = MPContext()
    return _local.mp


@lru_cache(maxsize=1024)
def _coordinate(name_index: int, point: int) -> Fraction:
    """A fixed rational of 40 bits without pattern, for the name_index-th symbol at a point."""
    low, high = _RANGES[point]
    state = (name_index * 7919 + point * 104729 + 12345) & 0xFFFFFFFF
    for _ in range(3):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(state >> 24, 1 << 40)


def same_function(a: Node, b: Node, budget: Budget) -> bool:
    """Equality of two folded expressions wherever both are defined over the reals.

    Without variables that is equality of two numbers. At the negative points a side that leaves the reals decides
    nothing (sqrt(1/n) and 1/sqrt(n) agree); two real values must agree at every point (sqrt(x^2) is not x).
    """
    names = sorted(symbols(a) | symbols(b))
    precision = _precision(a, b)
    if not names:
        return _agree(a, b, {}, precision, budget)
    usable = 0
    for point in range(len(_RANGES)):
        values = {name: _coordinate(index, point) for index, name in enumerate(names)}
        try:
            if point >= _POSITIVE and not (_is_real(a, values, budget) and _is_real(b, values, budget)):
                continue
            if not _agree(a, b, values, precision, budget):
                return False
            usable += 1
        except Undefined:
            continue
    return usable >= _USABLE


def constant_ratio(a: Node, b: Node, budget: Budget) -> int:
    """Sign of the constant c with a = c*b at all points where both are real; 0 where there is no such constant."""
    names = sorted(symbols(a) | symbols(b))
    if not names:
        return 0
    precision = _precision(a, b)
    ratio, usable = None, 0
    for point in range(len(_RANGES)):
        values = {name: _coordinate(index, point) for index, name in enumerate(names)}
        try:
            if not (_is_real(a, values, budget) and _is_real(b, values, budget)):
                continue
            above, below = (
                evaluate(a, values, 2 * precision, budget),
                evaluate(b, values, 2 * precision, budget),
            )
        except Undefined:
            continue
        if above == 0 or below == 0:
            return 0
        quotient = above / below
        if ratio is None:
            ratio = quotient
        elif abs(quotient - ratio) > abs(ratio) * context().mpf(2) ** -precision:
            return 0
        usable += 1
    if usable < _USABLE:
        return 0
    return 1 if ratio > 0 else -1


def compare_constants(a: Node, b: Node, budget: Budget) -> int:
    """-1, 0 or 1 as a real constant is less than, equal to or greater than another; Unreadable if not real."""
    if isinstance(a, Num) and isinstance(b, Num):
        return (a.value > b.value) - (a.value < b.value)
    try:
        if not (_is_real(a, {}, budget) and _is_real(b, {}, budget)):
            raise Unreadable("complex numbers have no order")
        precision = _precision(a, b)
        if _agree(a, b, {}, precision, budget):
            return 0
        left, right = evaluate(a, {}, precision, budget), evaluate(b, {}, precision, budget)
    except Undefined as error:
        raise Unreadable("an undefined value") from error
    return 1 if left.real > right.real else -1


def close_to_decimal(node: Node, decimal: Num, budget: Budget) -> bool:
    """Whether a constant differs from a decimal by less than one unit of the decimal's last place."""
    try:
        precision = _precision(node, decimal)
        value = evaluate(node, {}, precision, budget)
        unit = context().mpf(10) ** -decimal.places
        return abs(value - _rational(decimal.value)) < unit
    except Undefined:
        return False


def _precision(a: Node, b: Node) -> int:
    bits = constant_bits(a) + constant_bits(b)
    if bits > MAX_NUMERIC_BITS:
        raise TooBig(f"constants of {bits} bits in an irrational expression; the limit is {MAX_NUMERIC_BITS}")
    return _GUARD_BITS + 2 * bits


def _agree(a: Node, b: Node, values: dict[str, Fraction], precision: int, budget: Budget) -> bool:
    """Whether the difference of two values vanishes as the precision doubles."""
    mp = context()
    fine_a, fine_b = evaluate(a, values, 2 * precision, budget), evaluate(b, values, 2 * precision, budget)
    fine = abs(fine_a - fine_b)
    if fine <= max(abs(fine_a), abs(fine_b)) * mp.mpf(2) ** -precision:
        return True
    if max(abs(fine_a), abs(fine_b)) > mp.mpf(2) ** (-precision // 2):
        return False
    coarse = abs(evaluate(a, values, precision, budget) - evaluate(b, values, precision, budget))
    return fine <= coarse * mp.mpf(2) ** (-precision // 2)


def _is_real(node: Node, values: dict[str, Fraction], budget: Budget) -> bool:
    value = evaluate(node, values, _GUARD_BITS, budget)
    return abs(value.imag) <= abs(value) * context().mpf(2) ** (-_GUARD_BITS // 2)


def evaluate(node: Node, values: dict[str, Fraction], precision: int, budget: Budget):
    """The value of an expression as an mpmath number; raises Undefined where it has none."""
    mp = context()
    mp.prec = precision + 16
    try:
        value = _evaluate(node, values, budget, 1 + precision // 512)
    except (ZeroDivisionError, ValueError, OverflowError, ArithmeticError) as error:
        raise Undefined(str(error)) from error
    if not mp.isfinite(value):
        raise Undefined("not a finite number")
    return value


def _rational(value: Fraction):
    return context().mpf(value.numerator) / value.denominator


def _evaluate(node: Node, values: dict[str, Fraction], budget: Budget, cost: int):
    mp = context()
    budget.spend(cost)
    match node:
        case Num(value):
            return _rational(value)
        case Const(name):
            if name == "inf":
                raise Undefined("infinity inside an expression")
            return {"pi": mp.pi, "e": mp.e, "i": mp.j}[name] * 1
        case Sym(name):
            return _rational(values[name])
        case Add(terms):
            return sum((_evaluate(term, values, budget, cost) for term in terms), mp.zero)
        case Mul(factors):
            product = mp.one
            for factor in factors:
                product *= _evaluate(factor, values, budget, cost)
            return product
        case Div(above, below):
            return _evaluate(above, values, budget, cost) / _evaluate(below, values, budget, cost)
        case Pow(base, exponent):
            return _power(_evaluate(base, values, budget, cost), _evaluate(exponent, values, budget, cost))
        case Apply(name, args):
            return _unknown_function(
                values[name + "("], [_evaluate(arg, values, budget, cost) for arg in args]
            )
        case Call(name, args):
            budget.spend(4 * cost)
            return _FUNCTIONS[name](*(_evaluate(arg, values, budget, cost) for arg in args))
    raise Unreadable(f"no value for {type(node).__name__}")


def _power(base, exponent):
    mp = context()
    if base == 0:
        if mp.re(exponent) > 0:
            return mp.zero
        raise Undefined("zero to a power that is not positive")
    if abs(exponent) > 1 and abs(exponent) * (1 + abs(mp.mag(base))) > MAX_EXP_ARGUMENT:
        raise Undefined("a power out of range")
    return mp.power(base, exponent)


def _unknown_function(seed: Fraction, args: list):
    """A fixed smooth function of the arguments without special values, standing for an unknown `f`."""
    mp = context()
    total = _rational(seed)
    for place, arg in enumerate(args, start=1):
        if abs(arg) > MAX_EXP_ARGUMENT:
            raise Undefined("an argument out of range")
        total = mp.cos(total * (arg + place) + arg * arg / 7) + total / 3
    return total


def _limited(function: str, limit: float = MAX_EXP_ARGUMENT):
    def call(x):
        if abs(x) > limit:
            raise Undefined(f"{function} out of range")
        return getattr(context(), function)(x)

    return call


def _direct(function: str):
    return lambda x: getattr(context(), function)(x)


def _real_only(function: str):
    """A step function or order relation: defined for real arguments."""

    def call(*args):
        mp = context()
        if any(mp.im(arg) != 0 for arg in args):
            raise Undefined(f"{function} of a complex number")
        args = [mp.re(arg) for arg in args]
        return (
            min(args)
            if function == "min"
            else max(args)
            if function == "max"
            else getattr(mp, function)(args[0])
        )

    return call


def _logarithm(x):
    if x == 0:
        raise Undefined("the logarithm of zero")
    return context().log(x)


def _gamma_factorial(x):
    if abs(x) > 1_000:
        raise Undefined("a factorial out of range")
    return context().gamma(x + 1)


def _binomial(n, k):
    return _gamma_factorial(n) / (_gamma_factorial(k) * _gamma_factorial(n - k))


def _odd_root(x, index):
    mp = context()
    if mp.im(x) == 0 and mp.re(x) < 0:
        return -mp.power(-mp.re(x), 1 / index)
    return mp.power(x, 1 / index) if x != 0 else mp.zero


def _opaque(*args):
    raise Undefined("only defined for integers")


_FUNCTIONS = {
    **{
        name: _limited(name)
        for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth")
    },
    **{f"arc{name}": _direct(f"a{name}") for name in ("sin", "cos", "tan", "cot", "sinh", "cosh", "tanh")},
    **{name: _real_only(name) for name in ("floor", "ceil", "min", "max")},
    "sgn": _real_only("sign"),
    "abs": abs,
    "ln": _logarithm,
    "factorial": _gamma_factorial,
    "binom": _binomial,
    "root": _odd_root,
    "gcd": _opaque,
    "lcm": _opaque,
}
