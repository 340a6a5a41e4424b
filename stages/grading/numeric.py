"""Values of expressions at points, to any precision. mpmath is imported on first use."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from stages.grading.limits import MAX_EXP_ARGUMENT, MAX_GAMMA_BITS, MAX_STEPS, TooBig, Unreadable
from stages.grading.nodes import Add, Apply, Call, Const, Div, Mul, Node, Num, Pow, Sym

_MAX_GAMMA_ARGUMENT = 1_000
_local = threading.local()
_constants = threading.Lock()  # mpmath keeps pi, e and logarithms in caches that all contexts share


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


def context():
    """This thread's mpmath context (a context holds its precision, so threads do not share one)."""
    if not hasattr(_local, "mp"):
        from mpmath.ctx_mp import MPContext

        _local.mp = MPContext()
    return _local.mp


def evaluate(node: Node, values: dict[str, Fraction], precision: int, budget: Budget, real: bool = False):
    """The value of a folded expression, as an mpmath number of `precision` bits.

    `values` gives the variables, and under `f(` a seed for each unknown function. Raises Undefined where the
    expression has no finite value, where a function leaves the range it is evaluated in, and with `real` where any
    part of it leaves the real numbers.
    """
    mp = context()
    mp.prec = precision + 16
    try:
        with _constants:
            value = _Evaluation(values, budget, precision, real).value(node)
    except (ArithmeticError, ValueError) as error:
        raise Undefined(str(error)) from error
    if not mp.isfinite(value):
        raise Undefined("not a finite number")
    return value


def rational(value: Fraction):
    return context().mpf(value.numerator) / value.denominator


@dataclass(frozen=True)
class _Evaluation:
    values: dict[str, Fraction]
    budget: Budget
    precision: int
    real: bool

    @property
    def cost(self) -> int:
        """The steps that an operation counts as: its time grows about as the square of the precision."""
        return 1 + (self.precision // 512) ** 2

    def value(self, node: Node):
        self.budget.spend(self.cost)
        value = self._operation(node)
        if self.real and context().im(value) != 0:
            raise Undefined("not a real number")
        return value

    def _operation(self, node: Node):
        match node:
            case Num(value):
                return rational(value)
            case Const(name):
                return _constant(name)
            case Sym(name):
                return rational(self.values[name])
            case Add(terms):
                return sum((self.value(term) for term in terms), context().zero)
            case Mul(factors):
                return prod((self.value(factor) for factor in factors), start=context().one)
            case Div(above, below):
                return self.value(above) / self.value(below)
            case Pow(base, exponent):
                return _power(self.value(base), self.value(exponent))
            case Apply(name, args):
                return _unknown_function(self.values[name + "("], [self.value(arg) for arg in args])
            case Call(name, args):
                self.budget.spend(4 * self.cost)
                if name in ("factorial", "binom") and self.precision > MAX_GAMMA_BITS:
                    raise TooBig(f"a factorial of a variable at more than {MAX_GAMMA_BITS} bits")
                return _FUNCTIONS[name](*(self.value(arg) for arg in args))
        raise Unreadable(f"no value for {type(node).__name__}")


def _constant(name: str):
    mp = context()
    match name:
        case "pi":
            return +mp.pi
        case "e":
            return +mp.e
        case "i":
            return mp.j
    raise Undefined("infinity inside an expression")


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
    total = rational(seed)
    for place, arg in enumerate(args, start=1):
        if abs(arg) > MAX_EXP_ARGUMENT:
            raise Undefined("an argument out of range")
        total = mp.cos(total * (arg + place) + arg * arg / 7) + total / 3
    return total


def _limited(function: str) -> Callable:
    """A periodic or exponential function, evaluated for arguments of a bounded size."""

    def call(x):
        if abs(x) > MAX_EXP_ARGUMENT:
            raise Undefined(f"{function} out of range")
        return getattr(context(), function)(x)

    return call


def _direct(function: str) -> Callable:
    return lambda x: getattr(context(), function)(x)


def _real(x):
    """A real argument of a step function or an order relation."""
    if context().im(x) != 0:
        raise Undefined("an order of complex numbers")
    return context().re(x)


def _logarithm(x):
    if x == 0:
        raise Undefined("the logarithm of zero")
    return context().log(x)


def _factorial(x):
    if abs(x) > _MAX_GAMMA_ARGUMENT:
        raise Undefined("a factorial out of range")
    return context().gamma(x + 1)


def _binomial(n, k):
    return _factorial(n) / (_factorial(k) * _factorial(n - k))


def _odd_root(x, index):
    mp = context()
    if mp.im(x) == 0 and mp.re(x) < 0:
        return -mp.power(-mp.re(x), 1 / index)
    return mp.power(x, 1 / index) if x != 0 else mp.zero


def _integers_only(*args):
    raise Undefined("only defined for integers")


_FUNCTIONS: dict[str, Callable] = {
    **{name: _limited(name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth")},
    **{f"arc{name}": _direct(f"a{name}") for name in ("sin", "cos", "tan", "cot", "sinh", "cosh", "tanh")},
    "floor": lambda x: context().floor(_real(x)),
    "ceil": lambda x: context().ceil(_real(x)),
    "sgn": lambda x: context().sign(_real(x)),
    "min": lambda *args: min(map(_real, args)),
    "max": lambda *args: max(map(_real, args)),
    "abs": abs,
    "ln": _logarithm,
    "root": _odd_root,
    "factorial": _factorial,
    "binom": _binomial,
    "gcd": _integers_only,
    "lcm": _integers_only,
}
