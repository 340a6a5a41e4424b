"""Names in front of an equal sign: `x`, `a_n`, `f(x)`, `Area`, `AB`, `(x, y)`."""

from stages.grading.lexer import Token, canonical
from stages.grading.tokenlists import joined_words, strip_group
from stages.grading.vocabulary import ACCENTS, FUNCTION_NAMES, GREEK_LETTERS, reads_as_product

_NAME_COMMANDS = {*ACCENTS, *GREEK_LETTERS, "angle", "triangle"}
_ARITHMETIC = frozenset("+-*/^")


def read_name(tokens: list[Token]) -> str | None:
    """The canonical spelling of a name, None for an expression such as `2x` or `xy`."""
    tokens = strip_group(tokens)
    if not tokens or not _is_name_shaped(tokens) or _is_constant(tokens) or _is_product(tokens):
        return None
    if any(token.kind == "text" for token in tokens):
        return joined_words(tokens)
    return canonical(tokens)


def _is_name_shaped(tokens: list[Token]) -> bool:
    """Letters, names and text; digits and operators only in subscripts and arguments."""
    if tokens[0].text == "(":
        return tokens[-1].text == ")" and all(token.kind in ("word", "sep") or token.text in "()_" for token in tokens)
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text in ("(", "{")) - (token.text in (")", "}"))
        if token.kind == "cmd" and not (token.text in _NAME_COMMANDS or token.text.startswith("math")):
            return False
        inside = depth > 0 or token.text in (")", "}", "_", "'") or (index > 0 and tokens[index - 1].text == "_")
        if token.kind in ("num", "op") and not inside:
            return False
    return tokens[0].kind in ("word", "cmd", "text")


def _is_constant(tokens: list[Token]) -> bool:
    return len(tokens) == 1 and tokens[0].text in ("e", "i", "pi")


def _is_product(tokens: list[Token]) -> bool:
    """`xy = 6` and `x(x+1) = 6` are equations; `AB = 6`, `Area = 6` and `f(x) = 6` name something."""
    first = tokens[0]
    if first.kind != "word":
        return False
    if first.text.lower() in FUNCTION_NAMES:
        return True
    if len(tokens) > 1 and tokens[1].text == "(":
        return any(token.text in _ARITHMETIC for token in tokens) and first.text not in ("f", "g")
    if len(tokens) > 1 and all(token.kind == "word" for token in tokens):
        return any(len(token.text) == 1 for token in tokens)
    return len(first.text) in (2, 3) and reads_as_product(first.text) and not first.text.isupper()
