"""Operations on token lists that look at brackets only."""

from stages.grading.lexer import Token
from stages.grading.limits import Unreadable

_OPEN = frozenset(("(", "[", "{", "\\{", "⟨", "⌊", "⌈"))
_CLOSE = frozenset((")", "]", "}", "\\}", "⟩", "⌋", "⌉"))


def depth_change(token: Token) -> int:
    if token.text in _OPEN or token.text.startswith("begin "):
        return 1
    return -1 if token.text in _CLOSE or token.text.startswith("end ") else 0


def split_top(tokens: list[Token], marks: tuple[str, ...] = ()) -> tuple[list[list[Token]], list[str]]:
    """Parts between separators (or between the operators `marks`) outside brackets, and the separators.

    A comma before `and` is one separator, a trailing separator none. Raises Unreadable for unbalanced brackets.
    """
    parts: list[list[Token]] = [[]]
    separators: list[str] = []
    depth = 0
    for token in tokens:
        depth += depth_change(token)
        if depth < 0:
            raise Unreadable("a closing bracket without its opening one")
        splits = (token.kind == "op" and token.text in marks) if marks else token.kind == "sep"
        if not splits or depth:
            parts[-1].append(token)
        elif not marks and separators and not parts[-1]:
            separators[-1] = token.text
        else:
            parts.append([])
            separators.append(token.text)
    if depth:
        raise Unreadable("an unclosed bracket")
    if not marks and len(parts) > 1 and not parts[-1] and separators[-1] in (",", ";"):
        parts.pop()
        separators.pop()
    return parts, separators


def find_top(tokens: list[Token], marks: tuple[str, ...]) -> int | None:
    """Index of the first of some operators outside brackets."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += depth_change(token)
        if depth == 0 and token.kind == "op" and token.text in marks:
            return index
    return None


def top_operators(tokens: list[Token], marks: tuple[str, ...]) -> bool:
    return find_top(tokens, marks) is not None


def enclosed(tokens: list[Token]) -> bool:
    """Whether the first token is a bracket that the last one closes (`[0,1)` included)."""
    if len(tokens) < 2 or tokens[0].text not in ("(", "[", "\\{", "⟨"):
        return False
    return _closes_last(tokens)


def _closes_last(tokens: list[Token]) -> bool:
    depth = 0
    for index, token in enumerate(tokens):
        depth += depth_change(token)
        if depth == 0:
            return index == len(tokens) - 1
    return False


def strip_group(tokens: list[Token]) -> list[Token]:
    """Without plain braces around the whole, unless they delimit the arguments of `\\over`."""
    while len(tokens) >= 2 and tokens[0].text == "{" and tokens[-1].text == "}" and _closes_last(tokens):
        if any(token.text in ("over", "choose") for token in tokens):
            break
        tokens = tokens[1:-1]
    return tokens


def joined_words(tokens: list[Token]) -> str:
    return " ".join(token.text.lower() for token in tokens)


def split_flat(tokens: list[Token], mark: str) -> list[list[Token]]:
    """Parts between marks at any depth."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == mark:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
