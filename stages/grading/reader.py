"""From tokens to an answer: lists, sets, intervals, matrices, ratios; relations and quantities have own modules."""

import re

from stages.grading.answers import Answer, Based, Clock, Grid, Listing, Named, Ratio, RealSet
from stages.grading.exact import fold
from stages.grading.lexer import Token
from stages.grading.limits import MAX_ITEMS, MAX_SIGN_CHOICES, TooBig, Unreadable
from stages.grading.names import read_name
from stages.grading.nodes import Mul, Node
from stages.grading.numeric import Budget
from stages.grading.parser import parse_expression
from stages.grading.quantity import read_compound, read_quantity
from stages.grading.realsets import ALL_REALS, Piece, as_pieces, complement, intersection, union
from stages.grading.relations import RELATIONS, read_relation
from stages.grading.scope import Scope
from stages.grading.tokenlists import enclosed, find_top, split_flat, split_top, strip_group, top_operators
from stages.grading.vocabulary import FUNCTION_NAMES, GREEK_LETTERS, reads_as_product

_CLOCK = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?\s*(?:([ap])\.?\s?m\.?)?", re.IGNORECASE)
_HOUR = re.compile(r"([0-9]{1,2})\s*([ap])\.?\s?m\.?", re.IGNORECASE)
_BASED = re.compile(r"\(?([0-9A-F]+)\)?(?:_\s*\{?|\s+base\s+)\s*([0-9]{1,2}|[A-Z]+)\s*\}*", re.I | re.A)
_BASE_NAMES = (
    "",
    "",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_PRODUCT_LETTERS = frozenset("abcxyz")


def read_special(text: str) -> Answer | None:
    """Times of day, numerals with a base and quantities such as `2 h 30 min`, from text without text macros."""
    if match := _CLOCK.fullmatch(text):
        parts = [part for part in match.groups()[:3] if part is not None]
        padded = any(len(part) > 1 and part[0] == "0" for part in parts)
        half = match[4].lower() if match[4] else None
        return Clock(tuple(int(part) for part in parts), half, ratio=not (padded or half))
    if match := _HOUR.fullmatch(text):
        return Clock((int(match[1]), 0), match[2].lower(), ratio=False)
    if match := _BASED.fullmatch(text):
        digits, base = match[1].upper(), match[2].lower()
        number = int(base) if base.isdigit() else _BASE_NAMES.index(base) if base in _BASE_NAMES else 0
        numeral = any(char.isdigit() for char in digits) or (len(digits) > 1 and number > 10)
        if numeral and 2 <= number <= 36 and all(int(digit, 36) < number for digit in digits):
            return Based(digits.lstrip("0") or "0", number)
    return read_compound(text)


def read_tokens(tokens: list[Token], scope: Scope) -> Answer:
    """The answer a token list spells. Raises Unreadable outside the grammar, TooBig past a limit."""
    tokens = strip_group(tokens)
    if not tokens:
        raise Unreadable("nothing to read")
    if _is_prose(tokens):
        raise Unreadable("words")
    parts, separators = split_top(tokens)
    if len(parts) > 1:
        return _read_list(parts, separators, scope.deeper())
    return _read_element(parts[0], scope.deeper())


def _is_prose(tokens: list[Token]) -> bool:
    """Whether nothing but words stands there, so that letters are not multiplied (`no` is not `on`)."""
    if any(token.kind not in ("word", "text") for token in tokens):
        return False
    return any(_is_prose_word(token) for token in tokens)


def _is_prose_word(token: Token) -> bool:
    word, lower = token.text, token.text.lower()
    if len(word) == 1 or lower in FUNCTION_NAMES or word in GREEK_LETTERS or lower in ("pi", "inf", "infinity", "oo"):
        return False
    if len(word) <= 3 and set(word) <= _PRODUCT_LETTERS:
        return False
    return token.kind == "text" or not reads_as_product(word) or bool(set(lower) & set("aeiou"))


def _read_list(parts: list[list[Token]], separators: list[str], scope: Scope) -> Answer:
    if len(parts) > MAX_ITEMS:
        raise TooBig(f"a list of {len(parts)} members; the limit is {MAX_ITEMS}")
    name, parts = _shared_name(parts)
    items = _flat([_read_element(strip_group(part), scope) for part in parts])
    if all(isinstance(item, Named) and item.name == items[0].name for item in items):
        name, items = items[0].name, _flat([item.value for item in items])
    if all(isinstance(item, RealSet) and item.name == items[0].name for item in items):
        joined = _join_sets(items, set(separators), scope.budget)
        if joined is not None:
            return joined
    listing = Listing("list", tuple(items))
    return listing if name is None else Named(name, listing)


def _flat(items: list[Answer]) -> list[Answer]:
    """Bare lists among the members give their own members (`1, \\pm 2`)."""
    return [each for item in items for each in (item.items if _is_bare_list(item) else (item,))]


def _is_bare_list(item: Answer) -> bool:
    return isinstance(item, Listing) and item.style == "list"


def _shared_name(parts: list[list[Token]]) -> tuple[str | None, list[list[Token]]]:
    """`n = 2, 3, 4`: the name before the first member holds for all."""
    equals = find_top(parts[0], ("=", "∈"))
    if equals is None or any(top_operators(part, RELATIONS) for part in parts[1:]):
        return None, parts
    name = read_name(parts[0][:equals])
    return (None, parts) if name is None else (name, [parts[0][equals + 1 :], *parts[1:]])


def _join_sets(items: list[RealSet], separators: set[str], budget: Budget) -> RealSet | None:
    """`x < 1 or x > 2` is a union, `x > 1 and x < 2` an intersection; commas leave a list of inequalities."""
    if separators == {"or"}:
        return RealSet(union([piece for item in items for piece in item.pieces], budget), items[0].name)
    if separators == {"and"}:
        pieces = ALL_REALS
        for item in items:
            pieces = intersection(pieces, item.pieces, budget)
        return RealSet(pieces, items[0].name)
    return None


def _read_element(tokens: list[Token], scope: Scope) -> Answer:
    if not tokens:
        raise Unreadable("an empty member of a list")
    if any(token.text in ("±", "∓") for token in tokens):
        return _read_signs(tokens, scope.deeper())
    if top_operators(tokens, RELATIONS):
        return read_relation(tokens, scope, read_tokens)
    if any(token.text.startswith("begin ") for token in tokens):
        return _read_grid(tokens)
    if top_operators(tokens, ("∪", "∩", "∖")) or _is_all_reals(tokens):
        return RealSet(_read_set_expression(tokens, scope))
    if top_operators(tokens, (":",)):
        return Ratio(tuple(fold(parse_expression(part)) for part in split_top(tokens, (":",))[0]))
    if tokens[0].text == "emptyset" and len(tokens) == 1:
        return Listing("set", ())
    bracketed = _read_bracketed(tokens, scope.deeper()) if enclosed(tokens) else None
    return read_quantity(tokens) if bracketed is None else bracketed


def _read_signs(tokens: list[Token], scope: Scope) -> Answer:
    """The values of an expression with plus-minus signs: all chosen apart, or tied where `∓` appears."""
    places = [index for index, token in enumerate(tokens) if token.text in ("±", "∓")]
    if len(places) > MAX_SIGN_CHOICES:
        raise TooBig(f"{len(places)} plus-minus signs; the limit is {MAX_SIGN_CHOICES}")
    tied = any(tokens[index].text == "∓" for index in places)
    values = []
    for choice in [0, 2 ** len(places) - 1] if tied else range(2 ** len(places)):
        chosen = list(tokens)
        for bit, index in enumerate(places):
            minus = bool(choice >> bit & 1) ^ (tokens[index].text == "∓")
            chosen[index] = Token("op", "-" if minus else "+", tokens[index].spaced)
        values.append(_read_element(chosen, scope))
    if all(isinstance(value, Named) and value.name == values[0].name for value in values):
        return Named(values[0].name, Listing("list", tuple(value.value for value in values)))
    return Listing("list", tuple(values))


_FENCES = {
    **dict.fromkeys(("pmatrix", "bmatrix", "matrix", "array", "smallmatrix", "Bmatrix"), "matrix"),
    "vmatrix": "determinant",
    "Vmatrix": "norm",
}


def _read_grid(tokens: list[Token]) -> Grid:
    """A matrix, with a scalar before it multiplied in."""
    if enclosed(tokens) and tokens[0].text in ("(", "["):  # \left(\begin{array}...\end{array}\right)
        tokens = tokens[1:-1]
    start = next(index for index, token in enumerate(tokens) if token.text.startswith("begin "))
    environment = tokens[start].text.removeprefix("begin ")
    if tokens[-1].text != f"end {environment}" or environment not in _FENCES:
        raise Unreadable(f"the environment {environment}")
    scalar = tokens[: start - 1] if start and tokens[start - 1].text == "*" else tokens[:start]
    factor = parse_expression(scalar) if scalar else None
    rows: list[tuple[Node, ...]] = []
    for row in split_flat(tokens[start + 1 : -1], "\\\\"):
        cells = [parse_expression(cell) for cell in split_flat(row, "&")] if row else []
        rows.append(tuple(fold(cell if factor is None else Mul((factor, cell))) for cell in cells))
    rows = [row for row in rows if row]
    if not rows or any(len(row) != len(rows[0]) for row in rows) or len(rows) * len(rows[0]) > MAX_ITEMS:
        raise Unreadable("not a rectangular matrix of a bounded size")
    return Grid(tuple(rows), _FENCES[environment])


def _read_bracketed(tokens: list[Token], scope: Scope) -> Answer | None:
    """A set, tuple or interval; None for brackets around one thing other than `(...)`."""
    inner = tokens[1:-1]
    if tokens[0].text == "\\{":
        return _read_braces(inner, scope)
    parts, _ = split_top(inner)
    if len(parts) == 1:
        return read_tokens(inner, scope) if tokens[0].text == "(" and tokens[-1].text == ")" else None
    if len(parts) > MAX_ITEMS:
        raise TooBig(f"a tuple of {len(parts)} members; the limit is {MAX_ITEMS}")
    style = (tokens[0].text + tokens[-1].text).replace("⟨", "(").replace("⟩", ")")
    return Listing(style, tuple(read_tokens(part, scope) for part in parts))


def _read_braces(inner: list[Token], scope: Scope) -> Answer:
    """A set by its members, or by a condition on a real variable (`{x : x > 3}`)."""
    if not inner:
        return Listing("set", ())
    bar = find_top(inner, ("|", ":"))
    if bar is not None:
        member = find_top(inner[:bar], ("∈",))
        if read_name(inner[:bar] if member is None else inner[:member]) is not None:
            condition = read_tokens(inner[bar + 1 :], scope)
            if not isinstance(condition, RealSet):
                raise Unreadable("a set given by a condition that is no inequality")
            return RealSet(condition.pieces)
    content = read_tokens(inner, scope)
    return Listing("set", content.items if _is_bare_list(content) else (content,))


def _is_all_reals(tokens: list[Token]) -> bool:
    return len(tokens) == 1 and tokens[0].text == "mathbb{R}"


def _read_set_expression(tokens: list[Token], scope: Scope) -> tuple[Piece, ...]:
    """Unions of intersections of differences of intervals and finite sets."""
    tokens = strip_group(tokens)
    for operator in ("∪", "∩", "∖"):
        parts, _ = split_top(tokens, (operator,))
        if len(parts) == 1:
            continue
        sets = [_read_set_expression(part, scope.deeper()) for part in parts]
        if operator == "∪":
            return union([piece for pieces in sets for piece in pieces], scope.budget)
        result = sets[0]
        for other in sets[1:]:
            result = intersection(result, other if operator == "∩" else complement(other), scope.budget)
        return result
    if _is_all_reals(tokens):
        return ALL_REALS
    pieces = as_pieces(_read_element(tokens, scope), scope.budget)
    if pieces is None:
        raise Unreadable("not an interval or a finite set")
    return pieces
