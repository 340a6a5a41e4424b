"""Equations, memberships and inequalities."""

from stages.grading.answers import Answer, Equation, Inequality, Named, RealSet, Rounded, Value
from stages.grading.exact import fold
from stages.grading.lexer import Token
from stages.grading.limits import TooBig, Unreadable
from stages.grading.names import read_name
from stages.grading.nodes import Add, Call, Node, Num, Sym, negative, symbols
from stages.grading.numeric import Budget
from stages.grading.parser import parse_expression
from stages.grading.realsets import INFINITY, MINUS_INFINITY, Bound, Piece, bound, complement, intersection, union
from stages.grading.sameness import close_to_decimal, same_function
from stages.grading.scope import Read, Scope
from stages.grading.tokenlists import split_top

RELATIONS = ("=", "<", ">", "≤", "≥", "≠", "∈", "≈", "≡")
_TURNED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}
_MAX_SIDES = 6


def read_relation(tokens: list[Token], scope: Scope, read: Read) -> Answer:
    sides, operators = split_top(tokens, RELATIONS)
    if "≡" in operators:
        raise Unreadable("a congruence")
    if not sides[0] and operators[0] in ("=", "≈"):  # "= 5", and not "> 5"
        sides, operators = sides[1:], operators[1:]
        if not operators:
            return read(sides[0], scope.deeper())
    if operators == ["∈"]:
        name = read_name(sides[0])
        if name is None:
            raise Unreadable("membership of an expression")
        return Named(name, read(sides[1], scope.deeper()))
    if set(operators) <= {"=", "≈"}:
        return _read_equation(sides, operators, scope, read)
    return _read_inequality([fold(parse_expression(side)) for side in sides], operators, scope.budget)


def _read_equation(sides: list[list[Token]], operators: list[str], scope: Scope, read: Read) -> Answer:
    """`name = value`, a chain of equal values, or an equation between two expressions."""
    if len(sides) > _MAX_SIDES:
        raise TooBig(f"a chain of more than {_MAX_SIDES} sides")
    if len(sides) == 2 and read_name(sides[0]) is None and read_name(sides[1]) is not None:
        sides = sides[::-1]
    name = read_name(sides[0])
    if name is not None:
        values = [read(side, scope.deeper()) for side in sides[1:]]
        return Named(name, _stated(values, operators, scope.budget), _difference(sides))
    values = [read(side, scope.deeper()) for side in sides]
    if not all(isinstance(value, Value) for value in values):
        raise Unreadable("an equation between things that are not expressions")
    if not any(symbols(value.node) for value in values):
        return _stated(values, operators, scope.budget)
    if all(same_function(value.node, values[-1].node, scope.budget) for value in values[:-1]):
        return values[-1]  # an identity, `2x + 2x = 4x`, states its last side
    if len(values) != 2:
        raise Unreadable("a chain of equations")
    return Equation(fold(Add((values[0].node, negative(values[1].node)))))


def _stated(values: list[Answer], operators: list[str], budget: Budget) -> Answer:
    r"""The one value of a chain; `\frac{14}{3} \approx 4.67` states it and its rounding."""
    if operators[-1] == "≈" and len(values) > 1 and _is_rounding(values[-2], values[-1], budget):
        _check_chain(values[:-1], budget)
        return Rounded(values[-2], values[-1])
    _check_chain(values, budget)
    return values[-1]


def _is_rounding(exact: Answer, decimal: Answer, budget: Budget) -> bool:
    """Whether a decimal is the exact value rounded, up or down, to the places it has."""
    if not isinstance(exact, Value) or not isinstance(decimal, Value) or exact.unit not in (None, decimal.unit):
        return False
    if symbols(exact.node) or not isinstance(decimal.node, Num) or not decimal.node.places:
        return False
    return close_to_decimal(exact.node, decimal.node, budget)


def _check_chain(values: list[Answer], budget: Budget) -> None:
    """`x = 2 + 3 = 5` states one value, `3 = 5` none."""
    last = values[-1]
    for value in values[:-1]:
        if not isinstance(value, Value) or not isinstance(last, Value) or value.unit not in (None, last.unit):
            raise Unreadable("a chain of different things")
        if value.node != last.node and not same_function(value.node, last.node, budget):
            raise Unreadable("an equation that does not hold")


def _difference(sides: list[list[Token]]) -> Node | None:
    """Left minus right side, None where a side is no expression."""
    try:
        left, right = parse_expression(sides[0]), parse_expression(sides[-1])
        return fold(Add((left, negative(right))))
    except Unreadable:
        return None


def _read_inequality(sides: list[Node], operators: list[str], budget: Budget) -> Answer:
    """An interval where a lone variable is bounded by constants, else the inequality as it stands."""
    if len(sides) == 2:
        (left, right), operator = sides, operators[0]
        if isinstance(right, Sym):
            left, right, operator = right, left, _TURNED[operator]
        if isinstance(left, Sym) and not symbols(right):
            return RealSet(_half_line(operator, bound(right)), left.name)
        for side, radius, relation in ((left, right, operator), (right, left, _TURNED[operator])):
            distance = _distance(side)
            if distance is not None and operator != "≠" and not symbols(radius):
                return RealSet(_within(*distance, relation, radius, budget), distance[0].name)
        if operator in (">", "≥"):
            left, right, operator = right, left, _TURNED[operator]
        return Inequality(fold(Add((left, negative(right)))), operator)
    middle = sides[1]
    bounded = len(sides) == 3 and isinstance(middle, Sym) and not (symbols(sides[0]) or symbols(sides[2]))
    if not bounded or not set(operators) <= {"<", ">", "≤", "≥"}:
        raise Unreadable("a chain of inequalities")
    below = _half_line(_TURNED[operators[0]], bound(sides[0]))
    above = _half_line(operators[1], bound(sides[2]))
    return RealSet(intersection(below, above, budget), middle.name)


def _distance(node: Node) -> tuple[Sym, Node] | None:
    """x and a of `|x - a|`."""
    if not isinstance(node, Call) or node.name != "abs":
        return None
    terms = node.args[0].terms if isinstance(node.args[0], Add) else node.args
    variables = [term for term in terms if isinstance(term, Sym)]
    constants = [term for term in terms if not symbols(term)]
    if len(variables) != 1 or len(constants) != len(terms) - 1:
        return None
    return variables[0], fold(negative(Add(tuple(constants))))


def _within(variable: Sym, center: Node, operator: str, radius: Node, budget: Budget) -> tuple[Piece, ...]:
    """`|x - a| < r` is `a - r < x < a + r`, `|x - a| > r` the rest."""
    above = _half_line(_TURNED[operator], bound(fold(Add((center, negative(radius))))))
    below = _half_line(operator, bound(fold(Add((center, radius)))))
    if operator in ("<", "≤"):
        return intersection(above, below, budget)
    return union([*above, *below], budget)


def _half_line(operator: str, end: Bound) -> tuple[Piece, ...]:
    match operator:
        case "<" | "≤":
            return (Piece(MINUS_INFINITY, False, end, operator == "≤"),)
        case ">" | "≥":
            return (Piece(end, operator == "≥", INFINITY, False),)
        case "≠":
            return complement((Piece(end, True, end, True),))
    raise Unreadable(f"the relation {operator} between a variable and a number")
