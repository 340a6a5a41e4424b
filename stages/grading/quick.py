"""The fast path: equal text, integers, decimals and simple fractions, decided with `int` and `Fraction` alone.

Nothing here imports more than the standard library or runs longer than the strings are long.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from stages.grading.limits import MAX_DIGITS, STATED_DIGITS

_INTEGER = re.compile(r"([+-]?)([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)\.?")
_DECIMAL = re.compile(r"([+-]?)([0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)\.([0-9]+)\.?")
_SLASH = re.compile(r"([+-]?)([0-9]+) ?/ ?([0-9]+)\.?")
_LATEX = re.compile(r"([+-]?) ?\\[dt]?frac ?(?:\{([+-]?[0-9]+)\} ?\{([0-9]+)\}|([0-9])([0-9]))\.?")


@dataclass(frozen=True)
class Number:
    """An exact number as written; `places` counts the digits after a decimal point (None for other forms)."""

    value: Fraction
    places: int | None = None


@lru_cache(maxsize=8192)
def simple_number(text: str) -> Number | None:
    """Reads an integer, a decimal, `a/b` or `\\frac{a}{b}`; None for everything else."""
    if len(text) > MAX_DIGITS:
        return None
    if match := _INTEGER.fullmatch(text):
        sign, digits = match.groups()
        return Number(Fraction(_signed(sign, digits.replace(",", ""))))
    if match := _DECIMAL.fullmatch(text):
        sign, whole, part = match.groups()
        units = _signed(sign, whole.replace(",", "") + part)
        return Number(Fraction(units, 10 ** len(part)), len(part))
    if match := _SLASH.fullmatch(text):
        sign, above, below = match.groups()
    elif match := _LATEX.fullmatch(text):
        sign, above, below = match[1], match[2] or match[4], match[3] or match[5]
    else:
        return None
    return None if int(below) == 0 else Number(Fraction(_signed(sign, above), int(below)))


def _signed(sign: str, digits: str) -> int:
    return -int(digits) if sign == "-" else int(digits)


def numbers_agree(gold: Number, answer: Number) -> bool:
    """Equal as exact numbers, or one is a long decimal that rounds the other (see `stands_for`)."""
    if gold.value == answer.value:
        return True
    return stands_for(gold, answer) or stands_for(answer, gold)


def stands_for(exact: Number, decimal: Number) -> bool:
    """Whether `decimal` states at least STATED_DIGITS digits of a value that has no finite decimal form.

    1/3 may be written 0.333333333333333; 3 may not be written 3.00000001, and 0.333 is not 1/3.
    """
    if decimal.places is None or has_finite_decimal(exact.value):
        return False
    if stated_digits(decimal) < STATED_DIGITS:
        return False
    return abs(exact.value - decimal.value) < Fraction(1, 10**decimal.places)


def stated_digits(decimal: Number) -> int:
    """Significant digits of a decimal as written (trailing zeros count, leading zeros do not)."""
    return len(str(abs(decimal.value.numerator * 10**decimal.places // decimal.value.denominator)))


def has_finite_decimal(value: Fraction) -> bool:
    below = value.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    return below == 1


def quick_decision(gold: str, answer: str) -> tuple[bool, str] | None:
    """(equal, rule) where text or plain numbers decide; None where the full grammar is needed."""
    gold, answer = gold.strip(), answer.strip()
    if gold == answer:
        return True, "same text"
    gold_number = simple_number(gold)
    if gold_number is None:
        return None
    answer_number = simple_number(answer)
    if answer_number is None:
        return None
    return numbers_agree(gold_number, answer_number), "plain numbers"
