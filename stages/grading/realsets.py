"""Sets of real numbers as unions of intervals with exact end points."""

from dataclasses import dataclass
from functools import cmp_to_key

from stages.grading.answers import Answer, Listing, RealSet, Value
from stages.grading.limits import Unreadable
from stages.grading.nodes import Const, Mul, Node, Num, symbols
from stages.grading.numeric import Budget
from stages.grading.sameness import compare_constants


@dataclass(frozen=True)
class Bound:
    """An end point: `infinite` is -1 or 1 for an infinity and 0 for the finite `node`."""

    node: Node | None
    infinite: int = 0


@dataclass(frozen=True)
class Piece:
    low: Bound
    low_closed: bool
    high: Bound
    high_closed: bool


MINUS_INFINITY, INFINITY = Bound(None, -1), Bound(None, 1)
ALL_REALS = (Piece(MINUS_INFINITY, False, INFINITY, False),)


_INFINITE = Const("inf")


def infinity_sign(node: Node) -> int:
    """1 for infinity, -1 for minus infinity, 0 for everything else."""
    if node == _INFINITE:
        return 1
    negated = isinstance(node, Mul) and len(node.factors) == 2 and node.factors[1] == _INFINITE
    return -1 if negated and isinstance(node.factors[0], Num) and node.factors[0].value < 0 else 0


def bound(node: Node) -> Bound:
    """An end point. Raises Unreadable for one with a variable."""
    sign = infinity_sign(node)
    if sign == 0 and symbols(node):
        raise Unreadable("an end point with a variable")
    return Bound(node) if sign == 0 else INFINITY if sign > 0 else MINUS_INFINITY


def as_pieces(answer: Answer, budget: Budget) -> tuple[Piece, ...] | None:
    """A set of reals from an interval in brackets or from a finite set; None for other answers."""
    if isinstance(answer, RealSet):
        return answer.pieces
    if not isinstance(answer, Listing) or not all(isinstance(item, Value) and not item.unit for item in answer.items):
        return None
    ends = [bound(item.node) for item in answer.items]
    if answer.style == "set":
        return union([Piece(end, True, end, True) for end in ends], budget)
    if len(ends) != 2 or answer.style not in ("()", "[)", "(]", "[]"):
        return None
    interval = Piece(ends[0], answer.style[0] == "[", ends[1], answer.style[1] == "]")
    return None if _is_empty(interval, budget) else (interval,)  # (2,1) is a pair and no interval


def order(a: Bound, b: Bound, budget: Budget) -> int:
    if a.infinite or b.infinite:
        return (a.infinite > b.infinite) - (a.infinite < b.infinite)
    return compare_constants(a.node, b.node, budget)


def union(pieces: list[Piece], budget: Budget) -> tuple[Piece, ...]:
    """Sorted disjoint pieces with the same points; empty pieces vanish, touching ones merge."""
    kept = [piece for piece in pieces if not _is_empty(piece, budget)]
    kept.sort(key=cmp_to_key(lambda a, b: order(a.low, b.low, budget) or b.low_closed - a.low_closed))
    merged: list[Piece] = []
    for piece in kept:
        if not merged or _gap(merged[-1], piece, budget):
            merged.append(piece)
            continue
        last = merged.pop()
        compared = order(last.high, piece.high, budget)
        closed = last.high_closed if compared > 0 else piece.high_closed
        if compared == 0:
            closed = last.high_closed or piece.high_closed
        merged.append(Piece(last.low, last.low_closed, last.high if compared > 0 else piece.high, closed))
    return tuple(merged)


def complement(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The rest of the real line; `pieces` must be sorted and disjoint."""
    gaps, low, low_closed = [], MINUS_INFINITY, False
    for piece in pieces:
        if piece.low.infinite >= 0:
            gaps.append(Piece(low, low_closed, piece.low, not piece.low_closed))
        low, low_closed = piece.high, not piece.high_closed
    if low.infinite <= 0:
        gaps.append(Piece(low, low_closed, INFINITY, False))
    return tuple(gaps)


def intersection(a: tuple[Piece, ...], b: tuple[Piece, ...], budget: Budget) -> tuple[Piece, ...]:
    outside = union([*complement(a), *complement(b)], budget)
    return union(list(complement(outside)), budget)


def same_set(a: tuple[Piece, ...], b: tuple[Piece, ...], budget: Budget) -> bool:
    if len(a) != len(b):
        return False
    return all(
        left.low_closed == right.low_closed
        and left.high_closed == right.high_closed
        and order(left.low, right.low, budget) == 0
        and order(left.high, right.high, budget) == 0
        for left, right in zip(a, b, strict=True)
    )


def _is_empty(piece: Piece, budget: Budget) -> bool:
    compared = order(piece.low, piece.high, budget)
    return compared > 0 or (compared == 0 and not (piece.low_closed and piece.high_closed))


def _gap(left: Piece, right: Piece, budget: Budget) -> bool:
    compared = order(left.high, right.low, budget)
    return compared < 0 or (compared == 0 and not (left.high_closed or right.low_closed))
