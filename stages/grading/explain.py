"""Why a verdict fell, for a person to read."""

from fractions import Fraction

from stages.grading.answers import (
    Answer,
    Based,
    Clock,
    Equation,
    Grid,
    Inequality,
    Listing,
    Named,
    Ratio,
    RealSet,
    Rounded,
    Value,
)
from stages.grading.equivalence import Decision, Reading, decide, read
from stages.grading.extract import last_boxed
from stages.grading.limits import MAX_ANSWER_CHARS
from stages.grading.nodes import Add, Apply, Call, Const, Degree, Div, Mul, Node, Num, Percent, Pow, Sym
from stages.grading.realsets import Bound, Piece
from stages.grading.units import Unit

_SHOWN_CHARS = 120


def explain(gold: str, answer: str) -> str:
    """The two sides as normalised and as understood, the rule that fired and the verdict, in several lines.

    A side with `\\boxed{}` is unwrapped first, as the reward functions do.
    """
    gold, answer = (_unboxed(side) for side in (gold, answer))
    decision = decide(gold, answer)
    lines = [*_side("gold", gold), *_side("answer", answer)]
    lines += [f"rule     {_rule(decision)}", f"verdict  {decision.outcome}"]
    return "\n".join(lines)


def _unboxed(text: str) -> str:
    boxed = last_boxed(text)
    return text if boxed is None else boxed


def _rule(decision: Decision) -> str:
    if decision.outcome == "wrong" and decision.reason == "plain numbers":
        return "plain numbers, not equal"
    return decision.reason


def _side(label: str, text: str) -> list[str]:
    lines = [f"{label:8} {_short(text)}"]
    if len(text) > MAX_ANSWER_CHARS:
        return lines
    reading = read(text)
    if reading.text != text:
        lines.append(f"  cleaned  {_short(reading.text)}")
    lines.append(f"  read as  {_short(_reading(reading))}")
    return lines


def _short(text: str) -> str:
    shown = repr(text)[1:-1].replace("\\\\", "\\")
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}... ({len(text)} characters)"


def _reading(reading: Reading) -> str:
    if reading.answer is not None:
        return describe(reading.answer)
    return f"{'too much work' if reading.too_big else 'text'} ({reading.problem})"


def describe(answer: Answer) -> str:
    """An answer in words and plain mathematics."""
    match answer:
        case Value(node, unit):
            return f"value {spell(node)}" + ("" if unit is None else f", unit {_unit(unit)}")
        case Rounded(exact, decimal):
            return f"{describe(exact)}, rounded {spell(decimal.node)}"
        case Named(name, value):
            return f"{name} is {describe(value)}"
        case Listing(style, items):
            kind = {"list": "list", "set": "set"}.get(style, f"tuple or interval {style}")
            return f"{kind} of {len(items)}: " + "; ".join(describe(item) for item in items)
        case RealSet(pieces):
            return "real numbers " + (" or ".join(_piece(piece) for piece in pieces) or "(none)")
        case Grid(rows, fence):
            return f"{fence} " + "; ".join(", ".join(spell(cell) for cell in row) for row in rows)
        case Ratio(terms):
            return "ratio " + " : ".join(spell(term) for term in terms)
        case Clock(numbers, half):
            return "time " + ":".join(f"{number:02d}" for number in numbers) + (f" {half}.m." if half else "")
        case Based(digits, base):
            return f"numeral {digits} in base {base}"
        case Equation(difference):
            return f"equation {spell(difference)} = 0"
        case Inequality(difference, relation):
            return f"inequality {spell(difference)} {relation} 0"


def _unit(unit: Unit) -> str:
    powers = " ".join(base if power == 1 else f"{base}^{power}" for base, power in unit.dimensions)
    return powers if unit.factor == 1 else f"{unit.factor} {powers}"


def _piece(piece: Piece) -> str:
    brackets = ("[" if piece.low_closed else "(", "]" if piece.high_closed else ")")
    return f"{brackets[0]}{_bound(piece.low)}, {_bound(piece.high)}{brackets[1]}"


def _bound(bound: Bound) -> str:
    return spell(bound.node) if bound.node is not None else "infinity" if bound.infinite > 0 else "-infinity"


def spell(node: Node) -> str:
    """An expression in plain notation, with brackets wherever they could be needed."""
    match node:
        case Num(value):
            return _number(value)
        case Const(name) | Sym(name):
            return name
        case Add(terms):
            return "(" + " + ".join(spell(term) for term in terms) + ")"
        case Mul(factors):
            return "*".join(spell(factor) for factor in factors)
        case Div(above, below):
            return f"({spell(above)})/({spell(below)})"
        case Pow(base, exponent):
            return f"({spell(base)})^({spell(exponent)})"
        case Call(name, args) | Apply(name, args):
            return f"{name}({', '.join(spell(arg) for arg in args)})"
        case Percent(inner):
            return f"{spell(inner)}%"
        case Degree(inner):
            return f"{spell(inner)} degrees"


def _number(value: Fraction) -> str:
    """Digits, or their count where there are too many to show or to convert."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    return str(value) if bits < 200 else f"<a number of {bits} bits>"
