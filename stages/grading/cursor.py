"""A position in a token list."""

from stages.grading.lexer import Token
from stages.grading.limits import MAX_DEPTH, TooBig, Unreadable


class Cursor:
    """Reads tokens one by one and counts the nesting of what is being read."""

    def __init__(self, tokens: list[Token]):
        self.tokens = list(tokens)
        self.index = 0
        self.depth = 0

    def peek(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of some operators."""
        token = self.peek()
        return token is not None and token.kind == "op" and token.text in texts

    def take(self) -> Token:
        token = self.peek()
        if token is None:
            raise Unreadable("the expression breaks off")
        self.index += 1
        return token

    def expect(self, text: str) -> None:
        token = self.take()
        if token.text != text:
            raise Unreadable(f"{text!r} expected, found {token.text!r}")

    def signs(self) -> bool:
        """Takes leading plus and minus signs; True for an odd number of minus signs."""
        minus = False
        while self.at("+", "-"):
            minus ^= self.take().text == "-"
        return minus

    def descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooBig(f"nested deeper than {MAX_DEPTH} levels")

    def ascend(self) -> None:
        self.depth -= 1

    def raw_group(self) -> list[Token]:
        """The tokens of a braced group, or the next single token, unread."""
        first = self.take()
        if first.text != "{":
            return [first]
        start, depth = self.index, 1
        while depth:
            text = self.take().text
            depth += (text == "{") - (text == "}")
        return self.tokens[start : self.index - 1]
