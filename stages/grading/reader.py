"""From tokens to an answer: lists, sets, intervals, matrices, relations, quantities with units."""

import re

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
    Value,
)
from stages.grading.exact import fold
from stages.grading.lexer import Token, canonical
from stages.grading.limits import MAX_DEPTH, MAX_ITEMS, MAX_SIGN_CHOICES, TooBig, Unreadable
from stages.grading.nodes import Add, Const, Mul, Node, Num, Sym, negative, symbols
from stages.grading.numeric import Budget, Undefined, same_function
from stages.grading.parser import FUNCTION_NAMES, parse_expression, reads_as_product
from stages.grading.quantity import read_quantity
from stages.grading.realsets import (
    ALL_REALS,
    INFINITY,
    MINUS_INFINITY,
    Bound,
    Piece,
    complement,
    finite,
    intersection,
    point,
    union,
)
from stages.grading.tokenlists import (
    enclosed,
    find_top,
    joined_words,
    split_top,
    strip_group,
    top_operators,
)

_CLOCK = re.compile(
    r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?\s*(?:\\text\s*\{)?\s*(?:([ap])\.?\s?m\.?)?\s*\}?", re.I
)
_BASED = re.compile(
    r"\(?([0-9][0-9A-Fa-f]*)\)?(?:_\s*\{?|\s+base\s+)\s*(?:\\text\s*\{)?\s*([0-9]{1,2}|[a-z]+)\s*\}*",
    re.ASCII,
)
_BASE_NAMES = "two three four five six seven eight nine ten eleven twelve".split()
_RELATIONS = ("=", "<", ">", "≤", "≥", "≠", "∈", "≈", "≡")
_TURNED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}
_INFINITE = Const("inf")


def read_special(text: str) -> Answer | None:
    """Times of day and numerals with a base, recognised on the normalised text before tokenising."""
    if match := _CLOCK.fullmatch(text):
        numbers = tuple(int(part) for part in match.groups()[:3] if part is not None)
        return Clock(numbers, match[4].lower() if match[4] else None)
    if match := _BASED.fullmatch(text):
        digits, base = match.groups()
        number = int(base) if base.isdigit() else _BASE_NAMES.index(base) + 2 if base in _BASE_NAMES else 0
        if 2 <= number <= 36 and all(int(digit, 36) < number for digit in digits):
            return Based(digits.upper().lstrip("0") or "0", number)
    return None


def read_tokens(tokens: list[Token], budget: Budget, depth: int = 0) -> Answer:
    """The answer a token list spells. Raises Unreadable outside the grammar, TooBig past a limit."""
    if depth > MAX_DEPTH:
        raise TooBig(f"nested deeper than {MAX_DEPTH} levels")
    tokens = strip_group(tokens)
    if not tokens:
        raise Unreadable("nothing to read")
    if _is_prose(tokens):
        raise Unreadable("words")
    parts, separators = split_top(tokens)
    if len(parts) > 1:
        return _read_list(parts, separators, budget, depth)
    return _read_element(parts[0], budget, depth)


def _is_prose(tokens: list[Token]) -> bool:
    """Whether nothing but words stands there, so that letters are not multiplied (`no` is not `on`)."""
    if any(token.kind not in ("word", "text") for token in tokens):
        return False
    for token in tokens:
        word = token.text
        known = word in FUNCTION_NAMES or word.lower() in ("pi", "inf", "infinity", "theta", "sqrt")
        if len(word) == 1 or known or (set(word) <= set("abcxyz") and len(word) <= 3):
            continue
        if token.kind == "text" or not reads_as_product(word) or set(word.lower()) & set("aeiou"):
            return True
    return False


def _read_list(parts: list[list[Token]], separators: list[str], budget: Budget, depth: int) -> Answer:
    if len(parts) > MAX_ITEMS:
        raise TooBig(f"a list of {len(parts)} members; the limit is {MAX_ITEMS}")
    name, parts = _shared_name(parts)
    items: list[Answer] = []
    for part in parts:
        item = _read_element(strip_group(part), budget, depth + 1)
        items.extend(item.items if isinstance(item, Listing) and item.style == "list" else [item])
    if all(isinstance(item, Named) and item.name == items[0].name for item in items):
        name, items = items[0].name, [item.value for item in items]
        items = [each for item in items for each in (item.items if _is_plain_list(item) else [item])]
    if all(isinstance(item, RealSet) for item in items) and len({item.name for item in items}) == 1:
        joined = _join_sets(items, separators, budget)
        if joined is not None:
            return joined
    listing = Listing("list", tuple(items))
    return listing if name is None else Named(name, listing)


def _is_plain_list(item: Answer) -> bool:
    return isinstance(item, Listing) and item.style == "list"


def _shared_name(parts: list[list[Token]]) -> tuple[str | None, list[list[Token]]]:
    """`n = 2, 3, 4`: the name before the first member holds for all."""
    equals = find_top(parts[0], ("=", "∈"))
    if equals is None or any(top_operators(part, _RELATIONS) for part in parts[1:]):
        return None, parts
    name = _name(parts[0][:equals])
    return (None, parts) if name is None else (name, [parts[0][equals + 1 :], *parts[1:]])


def _join_sets(items: list[RealSet], separators: list[str], budget: Budget) -> RealSet | None:
    """`x < 1 or x > 2` is a union, `x > 1 and x < 2` an intersection; commas between inequalities stay a list."""
    if set(separators) == {"or"}:
        return RealSet(union([piece for item in items for piece in item.pieces], budget), items[0].name)
    if set(separators) == {"and"}:
        pieces = ALL_REALS
        for item in items:
            pieces = intersection(pieces, item.pieces, budget)
        return RealSet(pieces, items[0].name)
    return None


def _read_element(tokens: list[Token], budget: Budget, depth: int) -> Answer:
    if not tokens:
        raise Unreadable("an empty member of a list")
    if any(token.text in ("±", "∓") for token in tokens):
        return _read_signs(tokens, budget, depth)
    if any(token.text.startswith("begin ") for token in tokens):
        return _read_grid(tokens, budget)
    if top_operators(tokens, _RELATIONS):
        return _read_relation(tokens, budget, depth)
    if top_operators(tokens, ("∪", "∩", "∖")) or _is_all_reals(tokens):
        return RealSet(_read_set_expression(tokens, budget, depth))
    if top_operators(tokens, (":",)):
        parts, _ = split_top(tokens, (":",))
        return Ratio(tuple(fold(parse_expression(part)) for part in parts))
    if enclosed(tokens) or tokens[0].text == "emptyset":
        bracketed = _read_bracketed(tokens, budget, depth)
        if bracketed is not None:
            return bracketed
    return read_quantity(tokens)


def _read_signs(tokens: list[Token], budget: Budget, depth: int) -> Answer:
    """The values of an expression with plus-minus signs: all chosen apart, or tied where `∓` appears."""
    places = [index for index, token in enumerate(tokens) if token.text in ("±", "∓")]
    tied = any(tokens[index].text == "∓" for index in places)
    if len(places) > MAX_SIGN_CHOICES:
        raise TooBig(f"{len(places)} plus-minus signs; the limit is {MAX_SIGN_CHOICES}")
    choices = [0, 2 ** len(places) - 1] if tied else range(2 ** len(places))
    values = []
    for choice in choices:
        chosen = list(tokens)
        for bit, index in enumerate(places):
            minus = bool(choice >> bit & 1) ^ (tokens[index].text == "∓")
            chosen[index] = Token("op", "-" if minus else "+", tokens[index].spaced)
        values.append(_read_element(chosen, budget, depth + 1))
    if all(isinstance(value, Named) and value.name == values[0].name for value in values):
        return Named(values[0].name, Listing("list", tuple(value.value for value in values)))
    return Listing("list", tuple(values))


def _read_grid(tokens: list[Token], budget: Budget) -> Grid:
    """A matrix, with a scalar before it multiplied in."""
    start = next(index for index, token in enumerate(tokens) if token.text.startswith("begin "))
    environment = tokens[start].text.removeprefix("begin ")
    if tokens[-1].text != f"end {environment}" or environment not in _FENCES:
        raise Unreadable(f"the environment {environment}")
    scalar = None if start == 0 else parse_expression(_without_star(tokens[:start]))
    rows: list[list[Node]] = []
    for row in _split_flat(tokens[start + 1 : -1], "\\\\"):
        if row:
            rows.append([parse_expression(cell) for cell in _split_flat(row, "&")])
    if not rows or any(len(row) != len(rows[0]) for row in rows) or len(rows) * len(rows[0]) > MAX_ITEMS:
        raise Unreadable("not a rectangular matrix of a bounded size")
    scaled = [[fold(cell if scalar is None else Mul((scalar, cell))) for cell in row] for row in rows]
    return Grid(tuple(tuple(row) for row in scaled), _FENCES[environment])


_FENCES = {"vmatrix": "|", "Vmatrix": "||"} | dict.fromkeys(
    ("pmatrix", "bmatrix", "matrix", "array", "smallmatrix", "Bmatrix"), "matrix"
)


def _without_star(tokens: list[Token]) -> list[Token]:
    return tokens[:-1] if tokens[-1].text == "*" else tokens


def _split_flat(tokens: list[Token], mark: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == mark:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _read_bracketed(tokens: list[Token], budget: Budget, depth: int) -> Answer | None:
    if tokens[0].text == "emptyset":
        return Listing("set", ()) if len(tokens) == 1 else None
    inner = tokens[1:-1]
    if tokens[0].text == "\\{":
        return _read_braces(inner, budget, depth)
    parts, _ = split_top(inner)
    if len(parts) == 1:
        return (
            read_tokens(inner, budget, depth + 1)
            if tokens[0].text == "(" and tokens[-1].text == ")"
            else None
        )
    if len(parts) > MAX_ITEMS:
        raise TooBig(f"a tuple of {len(parts)} members; the limit is {MAX_ITEMS}")
    style = (tokens[0].text + tokens[-1].text).replace("⟨", "(").replace("⟩", ")")
    return Listing(style, tuple(read_tokens(part, budget, depth + 1) for part in parts))


def _read_braces(inner: list[Token], budget: Budget, depth: int) -> Answer:
    """A set by its members, or by a condition on a real variable (`{x : x > 3}`)."""
    if not inner:
        return Listing("set", ())
    bar = find_top(inner, ("|", ":"))
    if bar is not None and _name(inner[:bar] if find_top(inner[:bar], ("∈",)) is None else inner[:1]):
        condition = read_tokens(inner[bar + 1 :], budget, depth + 1)
        if not isinstance(condition, RealSet):
            raise Unreadable("a set given by a condition that is no inequality")
        return RealSet(condition.pieces)
    content = read_tokens(inner, budget, depth + 1)
    return Listing("set", content.items if _is_plain_list(content) else (content,))


def _is_all_reals(tokens: list[Token]) -> bool:
    return len(tokens) == 1 and tokens[0].text == "mathbb{R}"


def _read_set_expression(tokens: list[Token], budget: Budget, depth: int) -> tuple[Piece, ...]:
    """Unions of intersections of differences of intervals and finite sets."""
    if depth > MAX_DEPTH:
        raise TooBig(f"nested deeper than {MAX_DEPTH} levels")
    tokens = strip_group(tokens)
    for operator in ("∪", "∩", "∖"):
        parts, _ = split_top(tokens, (operator,))
        if len(parts) == 1:
            continue
        sets = [_read_set_expression(part, budget, depth + 1) for part in parts]
        if operator == "∪":
            return union([piece for pieces in sets for piece in pieces], budget)
        result = sets[0]
        for other in sets[1:]:
            result = intersection(result, other if operator == "∩" else complement(other), budget)
        return result
    if _is_all_reals(tokens):
        return ALL_REALS
    answer = _read_element(tokens, budget, depth + 1)
    pieces = as_pieces(answer, budget)
    if pieces is None:
        raise Unreadable("not an interval or a finite set")
    return pieces


def as_pieces(answer: Answer, budget: Budget) -> tuple[Piece, ...] | None:
    """A set of reals from an interval in brackets or from a finite set; None for other answers."""
    if isinstance(answer, RealSet):
        return answer.pieces
    if not isinstance(answer, Listing) or not all(
        isinstance(item, Value) and not item.unit for item in answer.items
    ):
        return None
    nodes = [item.node for item in answer.items]
    if answer.style == "set":
        return union([point(node) for node in nodes], budget)
    if len(nodes) != 2 or answer.style not in ("()", "[)", "(]", "[]"):
        return None
    low, high = (_bound(node) for node in nodes)
    return union([Piece(low, answer.style[0] == "[", high, answer.style[1] == "]")], budget)


def _bound(node: Node) -> Bound:
    sign = infinity_sign(node)
    return finite(node) if sign == 0 else INFINITY if sign > 0 else MINUS_INFINITY


def infinity_sign(node: Node) -> int:
    """1 for infinity, -1 for minus infinity, 0 for everything else."""
    if node == _INFINITE:
        return 1
    negated = isinstance(node, Mul) and len(node.factors) == 2 and node.factors[1] == _INFINITE
    if negated and isinstance(node.factors[0], Num) and node.factors[0].value < 0:
        return -1
    return 0


def _read_relation(tokens: list[Token], budget: Budget, depth: int) -> Answer:
    sides, operators = split_top(tokens, _RELATIONS)
    if "≡" in operators:
        raise Unreadable("a congruence")
    if not sides[0]:  # "= 5"
        sides, operators = sides[1:], operators[1:]
        if not operators:
            return read_tokens(sides[0], budget, depth + 1)
    if operators == ["∈"]:
        name = _name(sides[0])
        if name is None:
            raise Unreadable("membership of an expression")
        return Named(name, read_tokens(sides[1], budget, depth + 1))
    if set(operators) <= {"=", "≈"}:
        return _read_equation(sides, budget, depth)
    return _read_inequality([fold(parse_expression(side)) for side in sides], operators, budget)


def _read_equation(sides: list[list[Token]], budget: Budget, depth: int) -> Answer:
    """`name = value`, a chain of equal values, or an equation between two expressions."""
    if len(sides) > 6:
        raise TooBig("a chain of more than six equal signs")
    if len(sides) == 2 and _name(sides[0]) is None and _name(sides[1]) is not None:
        sides = sides[::-1]
    name = _name(sides[0])
    if name is not None:
        values = [read_tokens(side, budget, depth + 1) for side in sides[1:]]
        _check_chain(values, budget)
        return Named(name, values[-1], _difference(sides))
    values = [read_tokens(side, budget, depth + 1) for side in sides]
    if not all(isinstance(value, Value) for value in values):
        raise Unreadable("an equation between things that are not expressions")
    if not any(symbols(value.node) for value in values):
        _check_chain(values, budget)
        return values[-1]
    if len(values) != 2:
        raise Unreadable("a chain of equations")
    return Equation(fold(Add((values[0].node, negative(values[1].node)))))


def _check_chain(values: list[Answer], budget: Budget) -> None:
    """`x = 2 + 3 = 5` states one value, `3 = 5` none."""
    for value in values[:-1]:
        last = values[-1]
        if not isinstance(value, Value) or not isinstance(last, Value) or value.unit not in (None, last.unit):
            raise Unreadable("a chain of different things")
        try:
            equal = value.node == last.node or same_function(value.node, last.node, budget)
        except Undefined:
            equal = False
        if not equal:
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
            return RealSet(_half_line(operator, _bound(right)), left.name)
        if operator in (">", "≥"):
            left, right, operator = right, left, _TURNED[operator]
        return Inequality(fold(Add((left, negative(right)))), operator)
    middle = sides[1]
    if (
        len(sides) != 3
        or not isinstance(middle, Sym)
        or symbols(sides[0])
        or symbols(sides[2])
        or "≠" in operators
    ):
        raise Unreadable("a chain of inequalities")
    below = _half_line(_TURNED[operators[0]], _bound(sides[0]))
    above = _half_line(operators[1], _bound(sides[2]))
    return RealSet(intersection(below, above, budget), middle.name)


def _half_line(operator: str, bound: Bound) -> tuple[Piece, ...]:
    match operator:
        case "<" | "≤":
            return (Piece(MINUS_INFINITY, False, bound, operator == "≤"),)
        case ">" | "≥":
            return (Piece(bound, operator == "≥", INFINITY, False),)
    return complement((Piece(bound, True, bound, True),))


_NAME_COMMANDS = ("vec", "hat", "bar", "overline", "overrightarrow", "tilde", "angle", "triangle", "widehat")


def _name(tokens: list[Token]) -> str | None:
    """The canonical spelling of a name (`x`, `f(x)`, `a_n`, `Area`, `(x, y)`), None for an expression."""
    tokens = strip_group(tokens)
    if not tokens or tokens[0].kind == "num":
        return None
    depth = 0
    for index, token in enumerate(tokens):
        subscript = index > 0 and tokens[index - 1].text == "_"
        if token.text in ("(", "{"):
            depth += 1
        elif token.text in (")", "}"):
            depth -= 1
        elif token.kind == "cmd":
            if token.text in FUNCTION_NAMES or token.text in ("frac", "pi", "infty", "binom", "root"):
                return None
        elif token.kind == "op" and token.text not in ("_", "'") and depth == 0:
            return None
        elif token.kind == "num" and depth == 0 and not subscript:
            return None
    letters = [token for token in tokens if token.kind == "word"]
    if any(token.text in ("e", "i") for token in tokens[:1]) and len(tokens) == 1:
        return None
    if len(letters) == len(tokens) and len(letters[0].text) > 1 and reads_as_product(letters[0].text):
        if not letters[0].text.isupper() and len(letters[0].text) < 4:
            return None  # xy = 6 is an equation, AB = 6 a length
    if tokens[0].text == "(" and any(token.text in ("+", "-", "*", "/", "^") for token in tokens):
        return None
    return joined_words(tokens) if any(token.kind == "text" for token in tokens) else canonical(tokens)
