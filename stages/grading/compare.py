"""When two answers are the same: one function a pair of kinds, each returning the rule that fired or None."""

import re
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
from stages.grading.exact import fold
from stages.grading.nodes import Div, Mul, Node, Num, symbols
from stages.grading.numeric import Budget
from stages.grading.realsets import as_pieces, same_set
from stages.grading.sameness import constant_ratio
from stages.grading.value_rules import match_values, same_value

_OF_VARIABLE = re.compile(r" \( [a-z] \)$")


def match(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    """The rule by which `answer` equals `gold`, None where it does not. May raise TooBig or Unreadable."""
    if isinstance(gold, Named) or isinstance(answer, Named):
        return _match_named(gold, answer, budget)
    if isinstance(gold, Rounded) or isinstance(answer, Rounded):
        return _match_rounded(gold, answer, budget)
    compare = _RULES.get((type(gold), type(answer)))
    return None if compare is None else compare(gold, answer, budget)


def _match_rounded(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    """Either of the two values stated may be the one that was asked for."""
    for one in _readings(gold):
        for other in _readings(answer):
            if rule := match(one, other, budget):
                return rule
    return None


def _readings(answer: Answer) -> tuple[Answer, ...]:
    return (answer.exact, answer.decimal) if isinstance(answer, Rounded) else (answer,)


def _match_named(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    """A name may be left out; two different names, or different equations, do not match."""
    if isinstance(gold, Named) and isinstance(answer, Named):
        if _same_name(gold.name, answer.name):
            return match(gold.value, answer.value, budget)
        return _proportional(gold.difference, answer.difference, budget)
    named, other = (gold, answer) if isinstance(gold, Named) else (answer, gold)
    if isinstance(other, Listing) and _names(other) - {named.name}:
        return _match_coordinates(named, other, budget)
    if isinstance(other, Equation):
        return _proportional(named.difference, other.difference, budget)
    if isinstance(other, RealSet) and other.name is not None and other.name != named.name:
        return None
    if isinstance(other, Listing) and other.style == "()" and _is_list(named.value):
        return None  # `x = 1, x = 2` is no point
    pair = (gold.value, answer) if named is gold else (gold, answer.value)
    rule = match(*pair, budget)
    return rule and f"{rule}, name left out"


def _match_coordinates(point: Named, listing: Listing, budget: Budget) -> str | None:
    """`(x, y) = (1, 2)` and `x = 1, y = 2`, by name."""
    variables = point.name.strip("( )").split(" , ")
    values = {item.name: item.value for item in listing.items if isinstance(item, Named)}
    if listing.style != "list" or sorted(values) != sorted(variables) or len(listing.items) != len(variables):
        return None
    return match(point.value, Listing("()", tuple(values[name] for name in variables)), budget)


def _is_list(answer: Answer) -> bool:
    return isinstance(answer, Listing) and answer.style == "list"


def _same_name(one: str, other: str) -> bool:
    """Equal names; a function may be named with its variable or without (`y(x)` and `y`, but not `f(2)` and `f`)."""
    short, long = sorted((one, other), key=len)
    return one == other or ("(" not in short and _OF_VARIABLE.sub("", long) == short)


def _proportional(gold: Node | None, answer: Node | None, budget: Budget) -> str | None:
    if gold is None or answer is None or symbols(gold) != symbols(answer):
        return None
    return "equations with proportional sides" if constant_ratio(gold, answer, budget) else None


def _names(listing: Listing) -> set[str]:
    return {item.name for item in listing.items if isinstance(item, Named)}


def _match_listings(gold: Listing, answer: Listing, budget: Budget) -> str | None:
    """Tuples and intervals by entry, lists and sets by member; assignments stand for a tuple in their order."""
    names = [_names(gold), _names(answer)]
    if max(map(len, names)) > 1 and not min(map(len, names)):
        named, other = (gold, answer) if names[0] else (answer, gold)
        listed = other.style == "list" or (other.style == "()" and sorted(named.items, key=_name) == list(named.items))
        return _match_in_order(gold, answer, budget) if listed and named.style == "list" else None
    if gold.style == "list" and answer.style == "()" and not max(map(len, names)):
        return _match_in_order(gold, answer, budget)
    if {gold.style, answer.style} - {"list", "set"}:
        return _match_in_order(gold, answer, budget) if gold.style == answer.style else None
    golds, answers = list(gold.items), list(answer.items)
    if "set" in (gold.style, answer.style):
        golds, answers = _distinct(golds, budget), _distinct(answers, budget)
    if len(golds) != len(answers):
        return None
    for item in golds:
        found = next((index for index, other in enumerate(answers) if _match_member(item, other, budget)), None)
        if found is None:
            return None
        answers.pop(found)
    return "same members in any order"


def _name(item: Answer) -> str:
    return item.name if isinstance(item, Named) else ""


def _match_member(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    r"""As members, 2 and `\{2\}` differ."""
    if isinstance(gold, Listing) != isinstance(answer, Listing):
        return None
    return match(gold, answer, budget)


def _match_in_order(gold: Listing, answer: Listing, budget: Budget) -> str | None:
    if len(gold.items) != len(answer.items):
        return None
    pairs = zip(gold.items, answer.items, strict=True)
    return "same entries in order" if all(match(a, b, budget) for a, b in pairs) else None


def _distinct(items: list[Answer], budget: Budget) -> list[Answer]:
    kept: list[Answer] = []
    for item in items:
        if not any(_match_member(item, other, budget) for other in kept):
            kept.append(item)
    return kept


def _match_single(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    r"""`\{5\}` for 5: a solution set with one member."""
    listing, other = (gold, answer) if isinstance(gold, Listing) else (answer, gold)
    if listing.style != "set" or len(listing.items) != 1:
        return None
    return match(listing.items[0], other, budget) and "set of one member"


def _match_sets(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    names = {side.name for side in (gold, answer) if isinstance(side, RealSet)} - {None}
    left, right = as_pieces(gold, budget), as_pieces(answer, budget)
    if left is None or right is None or len(names) > 1:
        return None
    return "same set of real numbers" if same_set(left, right, budget) else None


def _match_grids(gold: Grid, answer: Grid, budget: Budget) -> str | None:
    shapes = [(len(grid.rows), len(grid.rows[0]), grid.fence) for grid in (gold, answer)]
    if shapes[0] != shapes[1]:
        return None
    cells = zip(_cells(gold), _cells(answer), strict=True)
    return "same entries of the matrix" if all(same_value(a, b, budget) for a, b in cells) else None


def _match_rows(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    """`[[1,2],[3,4]]` for a matrix."""
    grid, listing = (gold, answer) if isinstance(gold, Grid) else (answer, gold)
    rows = [row.items for row in listing.items if isinstance(row, Listing) and row.style == "[]"]
    if grid.fence != "matrix" or listing.style != "[]" or len(rows) != len(listing.items):
        return None
    if any(not isinstance(cell, Value) or cell.unit is not None for row in rows for cell in row):
        return None
    return _match_grids(grid, Grid(tuple(tuple(cell.node for cell in row) for row in rows), "matrix"), budget)


def _cells(grid: Grid) -> list[Node]:
    return [cell for row in grid.rows for cell in row]


def _match_ratios(gold: Ratio, answer: Ratio, budget: Budget) -> str | None:
    """Proportional terms: 3:5 is 6:10. Ratios with a zero term must be equal term by term."""
    if len(gold.terms) != len(answer.terms):
        return None
    first, other = gold.terms[0], answer.terms[0]
    pairs = zip(gold.terms, answer.terms, strict=True)
    cross = all(same_value(fold(Mul((a, other))), fold(Mul((b, first))), budget) for a, b in pairs)
    zero = any(isinstance(term, Num) and term.value == 0 for term in (*gold.terms, *answer.terms))
    return "proportional ratios" if cross and not zero else None


def _match_ratio_value(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    ratio, value = (gold, answer) if isinstance(answer, Value) else (answer, gold)
    if len(ratio.terms) != 2 or value.unit is not None:
        return None
    return "ratio as a fraction" if same_value(fold(Div(*ratio.terms)), value.node, budget) else None


def _as_ratio(answer: Answer) -> Answer:
    if isinstance(answer, Clock) and answer.ratio:
        return Ratio(tuple(Num(Fraction(number)) for number in answer.numbers))
    return answer


def _match_clock_ratio(gold: Answer, answer: Answer, budget: Budget) -> str | None:
    gold, answer = _as_ratio(gold), _as_ratio(answer)
    if isinstance(gold, Clock) or isinstance(answer, Clock):
        return None
    return match(gold, answer, budget)


def _match_clocks(gold: Clock, answer: Clock, budget: Budget) -> str | None:
    if gold.numbers == answer.numbers and gold.half in (None, answer.half):
        return "same time"
    time = _on_24_hours(gold)
    return "same time on 24 hours" if time is not None and time == _on_24_hours(answer) else None


def _on_24_hours(clock: Clock) -> tuple[int, ...] | None:
    """15:45 for 3:45 p.m.; None for a time that may be before or after noon."""
    hour, *rest = clock.numbers
    if clock.half is None:
        return clock.numbers if hour > 12 or hour == 0 else None
    return (hour % 12 + 12 * (clock.half == "p"), *rest)


def _match_based(gold: Based, answer: Answer, budget: Budget) -> str | None:
    """The same digits in the same base; the base may be left out of the answer, not out of the gold."""
    if isinstance(answer, Based):
        return "same numeral" if gold == answer else None
    bare = isinstance(answer.node, Num) and answer.unit is None and gold.digits.isdigit()
    return "same numeral, base left out" if bare and answer.node.value == int(gold.digits) else None


def _match_equations(gold: Equation, answer: Equation, budget: Budget) -> str | None:
    return _proportional(gold.difference, answer.difference, budget)


def _match_inequalities(gold: Inequality, answer: Inequality, budget: Budget) -> str | None:
    if gold.relation != answer.relation or symbols(gold.difference) != symbols(answer.difference):
        return None
    sign = constant_ratio(gold.difference, answer.difference, budget)
    holds = sign > 0 or (sign < 0 and gold.relation == "≠")
    return "inequalities with proportional sides" if holds else None


_RULES = {
    (Value, Value): match_values,
    (Listing, Listing): _match_listings,
    (Listing, Value): _match_single,
    (Value, Listing): _match_single,
    (RealSet, RealSet): _match_sets,
    (RealSet, Listing): _match_sets,
    (Listing, RealSet): _match_sets,
    (Grid, Grid): _match_grids,
    (Grid, Listing): _match_rows,
    (Listing, Grid): _match_rows,
    (Ratio, Ratio): _match_ratios,
    (Ratio, Value): _match_ratio_value,
    (Value, Ratio): _match_ratio_value,
    (Clock, Clock): _match_clocks,
    (Clock, Ratio): _match_clock_ratio,
    (Ratio, Clock): _match_clock_ratio,
    (Clock, Value): _match_clock_ratio,
    (Value, Clock): _match_clock_ratio,
    (Based, Based): _match_based,
    (Based, Value): _match_based,
    (Equation, Equation): _match_equations,
    (Inequality, Inequality): _match_inequalities,
}
