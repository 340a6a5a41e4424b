"""Countdown answers: an expression that uses every given number once and hits the target, checked without evaluating.

The expression is read by the small grammar below, in exact fractions. Work is bounded by the length limit, and nothing
is computed before the numbers are found to be those of the problem.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

MAX_CHARS = 400
MAX_NUMBERS, MAX_VALUE = 20, 10**9
PROBLEM = f"it needs 1 to {MAX_NUMBERS} numbers from 1 to {MAX_VALUE:,} and a whole target no larger than that"
_TYPOGRAPHY = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
_LATEX = {r"\times": "*", r"\cdot": "*", r"\div": "/", r"\left(": "(", r"\right)": ")"}
_TOKEN = re.compile(r"[0-9]+|[-+*/()]")
_GAP = re.compile(r"[ \t\r\n$]*")
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 1}


class NoExpression(ValueError):
    """Text that is no expression of the grammar. The message says where it fails."""


def is_problem(numbers: Any, target: Any) -> bool:
    """Whether these can be the numbers and the target of a problem (see PROBLEM)."""
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= MAX_NUMBERS:
        return False
    whole = all(type(value) is int for value in [*numbers, target])
    return whole and all(1 <= number <= MAX_VALUE for number in numbers) and abs(target) <= MAX_VALUE


def check_countdown(problem: dict[str, Any], answer: str) -> tuple[str, str]:
    """(verdict, reason) for an answer to `{"numbers": [...], "target": n}`; never raises, whatever the answer is.

    Verdicts: `correct`, `wrong`, `too_long`, and `bad_reference` for a problem that is none.
    """
    numbers, target = problem.get("numbers"), problem.get("target")
    if not is_problem(numbers, target):
        return "bad_reference", f"no Countdown problem: {PROBLEM}"
    if len(answer) > MAX_CHARS:
        return "too_long", f"an expression of {len(answer)} characters; the limit is {MAX_CHARS}"
    try:
        tokens = tokenize(_left_side(answer, target))
        used = Counter(int(token) for token in tokens if token.isdigit())
        if used != Counter(numbers):
            return "wrong", _difference(used, Counter(numbers))
        value = evaluate(tokens)
    except NoExpression as error:
        return "wrong", str(error)
    except ZeroDivisionError:
        return "wrong", "divides by zero"
    return ("correct", "hits the target") if value == target else ("wrong", f"equals {value}, not {target}")


def _left_side(answer: str, target: int) -> str:
    """The answer without an `= target` at its end."""
    expression, equals, stated = answer.partition("=")
    if not equals:
        return expression
    if stated.translate(_TYPOGRAPHY).strip(" \t\r\n$") != str(target):
        raise NoExpression(f"says `= {stated.strip():.40}`, and the target is {target}")
    return expression


def _difference(used: Counter[int], given: Counter[int]) -> str:
    extra, missing = sorted((used - given).elements()), sorted((given - used).elements())
    faults = [f"uses {', '.join(map(str, extra)):.80} too often"] if extra else []
    faults += [f"leaves out {', '.join(map(str, missing))}"] if missing else []
    return " and ".join(faults)


def tokenize(text: str) -> list[str]:
    """Whole numbers, `+ - * /` and parentheses; × · ÷ − and their LaTeX names are read as what they print.

    Raises NoExpression at anything else, so decimals, powers, `//` and names are refused.
    """
    for written, meant in _LATEX.items():
        text = text.replace(written, f" {meant} ")
    text = text.translate(_TYPOGRAPHY)
    tokens, at = [], _GAP.match(text).end()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoExpression(f"holds {text[at : at + 12]!r}, which is no whole number, + - * / or parenthesis")
        tokens.append(match.group())
        at = _GAP.match(text, match.end()).end()
    return tokens


def evaluate(tokens: list[str]) -> Fraction:
    """The exact value, by precedence and from left to right. Raises NoExpression and ZeroDivisionError.

    A minus may also stand first in the expression or in a parenthesis: -a*b + c is c - a*b, so it reaches nothing new.
    Every other sign of a number, and multiplication without a `*`, is refused. Operators wait on a stack until one
    that binds no tighter follows, so nesting costs no recursion.
    """
    values: list[Fraction] = []
    waiting: list[str] = []
    before = "("  # what stands before the first token counts as an opened parenthesis
    for token in tokens:
        operand_expected = before in "(+-*/"
        if token.isdigit() or token == "(":
            if not operand_expected:
                raise NoExpression(f"has {token} straight after {before}")
            waiting.append(token) if token == "(" else values.append(Fraction(int(token)))
        elif operand_expected:
            if token != "-" or before != "(":
                raise NoExpression(f"has {token} where a number should stand")
            waiting.append("negate")
        elif token == ")":
            _reduce(values, waiting, 0)
            if not waiting:
                raise NoExpression("closes a parenthesis that was not opened")
            waiting.pop()
        else:
            _reduce(values, waiting, _RANK[token])
            waiting.append(token)
        before = token
    if before in "(+-*/":
        raise NoExpression("ends where a number should stand")
    _reduce(values, waiting, 0)
    if waiting:
        raise NoExpression("leaves a parenthesis open")
    return values[0]


def _reduce(values: list[Fraction], waiting: list[str], rank: int) -> None:
    """Apply the waiting operators that bind at least as tightly as `rank`, back to the last open parenthesis."""
    while waiting and waiting[-1] != "(" and _RANK[waiting[-1]] >= rank:
        operator, right = waiting.pop(), values.pop()
        if operator == "negate":
            values.append(-right)
            continue
        left = values.pop()
        if operator == "/":
            values.append(left / right)
        else:
            values.append({"+": left + right, "-": left - right, "*": left * right}[operator])
