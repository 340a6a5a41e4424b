"""When two values are the same: exactly, as functions, by rounding, and over units, percent and degree signs."""

from stages.grading.answers import Value
from stages.grading.exact import fold
from stages.grading.limits import STATED_DIGITS
from stages.grading.nodes import Degree, Mul, Node, Num, Percent, symbols
from stages.grading.numeric import Budget
from stages.grading.quick import Number, has_finite_decimal, stands_for, stated_digits
from stages.grading.realsets import infinity_sign
from stages.grading.sameness import close_to_decimal, same_function, with_real_roots
from stages.grading.units import DEGREE, PERCENT


def same_value(gold: Node, answer: Node, budget: Budget) -> bool:
    """Equal exactly, as functions of their variables, or one a long decimal that rounds the other."""
    if gold == answer:
        return True
    if isinstance(gold, Num) and isinstance(answer, Num):
        exact, given = Number(gold.value, gold.places), Number(answer.value, answer.places)
        return gold.value == answer.value or stands_for(exact, given) or stands_for(given, exact)
    if infinity_sign(gold) or infinity_sign(answer):
        return infinity_sign(gold) == infinity_sign(answer)
    if same_function(gold, answer, budget):
        return True
    real = with_real_roots(gold), with_real_roots(answer)
    if real != (gold, answer) and same_function(*real, budget):
        return True
    return _rounds(gold, answer, budget) or _rounds(answer, gold, budget)


def _rounds(node: Node, decimal: Node, budget: Budget) -> bool:
    if not isinstance(decimal, Num) or decimal.places is None:
        return False
    if stated_digits(Number(decimal.value, decimal.places)) < STATED_DIGITS:
        return False
    if symbols(node) or (isinstance(node, Num) and has_finite_decimal(node.value)):
        return False
    return close_to_decimal(node, decimal, budget)


def match_values(gold: Value, answer: Value, budget: Budget) -> str | None:
    """The rule by which two values with their units are equal, None where they are not."""
    if gold.unit == answer.unit:
        return "same value" if same_value(gold.node, answer.node, budget) else None
    if PERCENT in (gold.unit, answer.unit):
        return _match_percent(gold, answer, budget)
    if DEGREE in (gold.unit, answer.unit) and None in (gold.unit, answer.unit):
        return _match_degrees(gold, answer, budget)
    if gold.unit is None or answer.unit is None:
        missing = "gold" if gold.unit is None else "answer"
        return f"same value, no unit in the {missing}" if same_value(gold.node, answer.node, budget) else None
    if gold.unit.dimensions != answer.unit.dimensions:
        return None
    scaled = (fold(Mul((side.node, Num(side.unit.factor)))) for side in (gold, answer))
    return "same quantity in another unit" if same_value(*scaled, budget) else None


def _match_percent(gold: Value, answer: Value, budget: Budget) -> str | None:
    """`28%` is 28 or 0.28; a bare gold below 1 in size is a share, so `0.5` is 50% and never 0.5%."""
    if gold.unit is not None and answer.unit is not None:
        return None
    percent, bare = (gold, answer) if gold.unit is not None else (answer, gold)
    if same_value(fold(Percent(percent.node)), bare.node, budget):
        return "percent as a share of one"
    if percent is answer and isinstance(bare.node, Num) and abs(bare.node.value) <= 1:
        return None
    return "percent sign left out" if same_value(percent.node, bare.node, budget) else None


def _match_degrees(gold: Value, answer: Value, budget: Budget) -> str | None:
    degrees, bare = (gold, answer) if gold.unit is not None else (answer, gold)
    if same_value(degrees.node, bare.node, budget):
        return "degree sign left out"
    return "degrees as radians" if same_value(fold(Degree(degrees.node)), bare.node, budget) else None
