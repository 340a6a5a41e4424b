"""Whether two expressions are the same function, by their values at fixed points.

The precision exceeds the size of all constants together, so a difference hidden in the 100th digit is still seen: a
difference that stays as the precision doubles refutes, one that vanishes with the precision accepts.
"""

from fractions import Fraction
from functools import lru_cache

from stages.grading.exact import constant_bits
from stages.grading.limits import MAX_NUMERIC_BITS, TooBig, Unreadable
from stages.grading.nodes import Add, Apply, Call, Div, Mul, Node, Num, Pow, symbols
from stages.grading.numeric import Budget, Undefined, context, evaluate, rational

_GUARD_BITS = 64
# Ranges of the test points: small, medium and large positive values, then negative and mixed signs.
_RANGES = (
    (0.2, 0.9),
    (1.1, 2.9),
    (5.0, 9.0),
    (150.0, 400.0),
    (2e4, 9e4),
    (-0.9, -0.2),
    (-7.0, -3.0),
    (-3.0, 3.0),
)
_POSITIVE = 5  # the first ranges are positive
_USABLE = 2  # points at which both sides must have a value


@lru_cache(maxsize=1024)
def _coordinate(index: int, point: int) -> Fraction:
    """A fixed rational of 40 bits without a pattern, for the index-th variable at a point."""
    low, high = _RANGES[point]
    state = index * 7919 + point * 104729 + 12345
    for _ in range(3):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(state >> 24, 1 << 40)


def _point(names: list[str], point: int) -> dict[str, Fraction]:
    return {name: _coordinate(index, point) for index, name in enumerate(names)}


def same_function(a: Node, b: Node, budget: Budget) -> bool:
    """Equality of two folded expressions wherever both are defined over the reals.

    Without variables that is equality of two numbers (an undefined one equals nothing). Negative points decide
    only where no part of either side leaves the reals: sqrt(x)sqrt(y) and sqrt(xy) agree, sqrt(x^2) is not x.
    """
    names = sorted(symbols(a) | symbols(b))
    precision = _precision(a, b)
    usable = 0
    for point in range(len(_RANGES)) if names else (0,):
        values = _point(names, point)
        try:
            if not _agree(a, b, values, precision, budget, real=point >= _POSITIVE):
                return False
            usable += 1
        except Undefined:
            continue
    return usable >= (_USABLE if names else 1)


def with_real_roots(node: Node) -> Node:
    """Powers of variable terms to p/q with odd q as powers of real roots, so that x^(1/3) is negative where x is."""
    match node:
        case Pow(base, Num(power)) if power.denominator > 1 and power.denominator % 2 and symbols(base):
            root = Call("root", (with_real_roots(base), Num(Fraction(power.denominator))))
            return Pow(root, Num(Fraction(power.numerator)))
        case Add(parts) | Mul(parts):
            return type(node)(tuple(map(with_real_roots, parts)))
        case Div(one, other) | Pow(one, other):
            return type(node)(with_real_roots(one), with_real_roots(other))
        case Call(name, args) | Apply(name, args):
            return type(node)(name, tuple(map(with_real_roots, args)))
    return node


def constant_ratio(a: Node, b: Node, budget: Budget) -> int:
    """Sign of the constant c with a = c*b wherever both are real; 0 where there is no such constant."""
    names = sorted(symbols(a) | symbols(b))
    if not names:
        return 0
    precision = _precision(a, b)
    ratio, usable = None, 0
    for point in range(len(_RANGES)):
        values = _point(names, point)
        try:
            if not _both_real(a, b, values, budget):
                continue
            above, below = (evaluate(side, values, 2 * precision, budget) for side in (a, b))
        except Undefined:
            continue
        if above == 0 or below == 0:
            return 0
        ratio = above / below if ratio is None else ratio
        if abs(above / below - ratio) > abs(ratio) * context().mpf(2) ** -precision:
            return 0
        usable += 1
    if usable < _USABLE:
        return 0
    return 1 if context().re(ratio) > 0 else -1


def compare_constants(a: Node, b: Node, budget: Budget) -> int:
    """-1, 0 or 1 as a real constant is less than, equal to or greater than another; Unreadable if not real."""
    if isinstance(a, Num) and isinstance(b, Num):
        return (a.value > b.value) - (a.value < b.value)
    try:
        if not _both_real(a, b, {}, budget):
            raise Unreadable("complex numbers have no order")
        precision = _precision(a, b)
        if _agree(a, b, {}, precision, budget):
            return 0
        left, right = (evaluate(side, {}, precision, budget).real for side in (a, b))
    except Undefined as error:
        raise Unreadable("an undefined value") from error
    return 1 if left > right else -1


def close_to_decimal(node: Node, decimal: Num, budget: Budget) -> bool:
    """Whether a constant differs from a decimal by less than one unit of the decimal's last place."""
    try:
        value = evaluate(node, {}, _precision(node, decimal), budget)
    except Undefined:
        return False
    return abs(value - rational(decimal.value)) < context().mpf(10) ** -decimal.places


def _precision(a: Node, b: Node) -> int:
    bits = constant_bits(a) + constant_bits(b)
    if bits > MAX_NUMERIC_BITS:
        raise TooBig(f"constants of {bits} bits among irrational terms; the limit is {MAX_NUMERIC_BITS}")
    return _GUARD_BITS + 2 * bits


def _agree(a: Node, b: Node, values: dict[str, Fraction], precision: int, budget: Budget, real: bool = False) -> bool:
    """Whether the difference of two values vanishes as the precision doubles."""
    bit = context().mpf(2)
    fine_a, fine_b = (evaluate(side, values, 2 * precision, budget, real) for side in (a, b))
    fine, size = abs(fine_a - fine_b), max(abs(fine_a), abs(fine_b))
    if fine <= size * bit**-precision:
        return True
    if size > bit ** (-precision // 2):
        return False
    coarse_a, coarse_b = (evaluate(side, values, precision, budget, real) for side in (a, b))  # both may be zero
    return fine <= abs(coarse_a - coarse_b) * bit ** (-precision // 2)


def _both_real(a: Node, b: Node, values: dict[str, Fraction], budget: Budget) -> bool:
    return all(_is_real(evaluate(side, values, _GUARD_BITS, budget)) for side in (a, b))


def _is_real(value) -> bool:
    return abs(value.imag) <= abs(value) * context().mpf(2) ** (-_GUARD_BITS // 2)
