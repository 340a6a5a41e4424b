"""An expression with what stands around it: currency signs, units, percent and degree signs."""

import re
from fractions import Fraction

from stages.grading.answers import Value
from stages.grading.exact import fold
from stages.grading.lexer import Token
from stages.grading.limits import Unreadable
from stages.grading.nodes import Mul, Num
from stages.grading.parser import parse_expression
from stages.grading.tokenlists import depth_change
from stages.grading.units import CURRENCIES, DEGREE, PERCENT, Unit, lookup, parse_unit
from stages.grading.vocabulary import FUNCTION_NAMES

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)(?:\s*,)?(?:\s+and\b)?\s*")
_MAX_PARTS = 4
_TEMPERATURES = {"C": "celsius", "F": "fahrenheit"}


def read_quantity(tokens: list[Token]) -> Value:
    """`\\$18`, `25 m/s`, `28\\%`, `90^\\circ`, `6 million`, or a bare expression."""
    tokens, currency = _strip_currency(tokens)
    tokens, unit = _strip_unit(tokens)
    if unit is None and tokens and tokens[-1].text in ("%", "°") and _is_single_term(tokens):
        unit = PERCENT if tokens[-1].text == "%" else DEGREE
        tokens = tokens[:-1]
    node = parse_expression(tokens)
    if unit is not None and unit.count != 1:  # "6 million dollars"
        node = Mul((node, Num(unit.count)))
    if unit is not None:
        unit = Unit(unit.dimensions, unit.factor) if unit.dimensions else None
    if currency is not None:
        unit = Unit(((currency, 1),))
    return Value(fold(node), unit)


def read_compound(text: str) -> Value | None:
    """`2 hours and 30 minutes`, `5 ft 3 in`: measures of one thing in ever smaller units, counted in the smallest."""
    parts, index = [], 0
    while index < len(text) and len(parts) < _MAX_PARTS and (match := _PART.match(text, index)):
        parts.append((Fraction(match[1]), lookup(match[2])))
        index = match.end()
    if index < len(text) or len(parts) < 2 or any(known is None for _, known in parts):
        return None
    sizes = [known[2] for _, known in parts]
    if len({known[:2] for _, known in parts}) > 1 or sorted(set(sizes), reverse=True) != sizes:
        return None
    base, power, smallest = parts[-1][1]
    total = sum(number * size for (number, _), size in zip(parts, sizes, strict=True)) / smallest
    return Value(Num(total), Unit(((base, power),), smallest))


def _strip_currency(tokens: list[Token]) -> tuple[list[Token], str | None]:
    for index in (0, 1, len(tokens) - 1):
        if index < len(tokens) and tokens[index].text in CURRENCIES:
            if 0 < index < len(tokens) - 1 and tokens[0].text not in ("-", "+"):
                continue
            return tokens[:index] + tokens[index + 1 :], CURRENCIES[tokens[index].text]
    return tokens, None


def _is_single_term(tokens: list[Token]) -> bool:
    """Whether a percent or degree sign at the end belongs to the whole (not in `1 + 50%` or `\\sin 30^\\circ`)."""
    if any(token.text in FUNCTION_NAMES for token in tokens):
        return False
    depth = 0
    for index, token in enumerate(tokens):
        depth += depth_change(token)
        if depth == 0 and index and token.text in ("+", "-") and tokens[index - 1].text not in ("^", "_"):
            return False
    return sum(token.text in ("%", "°") for token in tokens) == 1


def _strip_unit(tokens: list[Token]) -> tuple[list[Token], Unit | None]:
    """Splits off the longest trailing phrase that names a unit."""
    start = _unit_start(tokens)
    for cut in range(start, len(tokens)):
        if cut == 0 or tokens[cut].kind not in ("word", "text") or not _ends_value(tokens[cut - 1]):
            continue
        unit = _unit_of(tokens[cut:], tokens[cut - 1])
        if unit is not None:
            keep = cut - 1 if tokens[cut - 1].text in ("%", "°") else cut
            return tokens[:keep], unit
    if any(token.kind == "text" and len(token.text) > 1 for token in tokens[start:]) and start > 0:
        raise Unreadable("words behind an expression that name no unit")
    return tokens, None


def _unit_start(tokens: list[Token]) -> int:
    """Index from which only words, slashes and the powers 2 and 3 follow."""
    index = len(tokens)
    while index > 0:
        last = [token.text for token in tokens[max(0, index - 4) : index]]
        if last[0] == "^" and last[1:] in (["{", "2", "}"], ["{", "3", "}"]):
            index -= 4
        elif last[-2:] in (["^", "2"], ["^", "3"]):
            index -= 2
        elif tokens[index - 1].kind in ("word", "text") or last[-1] in ("/", "*"):
            index -= 1
        else:
            break
    return index


def _ends_value(token: Token) -> bool:
    if token.kind == "num" or token.text in (")", "]", "}", "%", "°", "!", "|"):
        return True
    return token.kind == "word" or (token.kind == "cmd" and token.text not in FUNCTION_NAMES)


def _unit_of(suffix: list[Token], before: Token) -> Unit | None:
    first = suffix[0]
    if before.text == "°":
        name = _TEMPERATURES.get(first.text) if len(suffix) == 1 else None
        return DEGREE if name is None and parse_unit(first.text, True) == DEGREE else _temperature(name)
    if before.kind == "word" and first.kind != "text":
        return None
    if first.kind == "word" and len(first.text) == 1 and not (first.spaced and before.kind == "num"):
        return None
    if first.kind == "word" and lookup(first.text) is None and first.text in FUNCTION_NAMES:
        return None
    unit = parse_unit(" ".join(token.text for token in suffix), quoted=first.kind == "text")
    return PERCENT if before.text == "%" and unit is not None else unit


def _temperature(name: str | None) -> Unit | None:
    return None if name is None else Unit(((name, 1),))
