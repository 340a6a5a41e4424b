"""Sums, products, powers and what follows a factor: the levels of the grammar above its atoms."""

from abc import ABC, abstractmethod

from stages.grading.cursor import Cursor
from stages.grading.lexer import Token
from stages.grading.limits import Unreadable
from stages.grading.nodes import Add, Call, Degree, Div, Mul, Node, Percent, Pow, negative

BRACKETS = {"(": ")", "[": "]", "{": "}", "|": "|", "⌊": "⌋", "⌈": "⌉"}
_MAX_POSTFIX = 4


class Arithmetic(Cursor, ABC):
    """Reads operators by precedence; `atom` is for the subclass to read."""

    @abstractmethod
    def atom(self, mixed: bool = True) -> Node:
        """A number, letter, function or bracket; `mixed` says whether `2\\frac{1}{2}` is one number here."""

    def __init__(self, tokens: list[Token]):
        super().__init__(tokens)
        self.bars = 0  # open absolute-value bars: inside them a bar closes

    def group(self) -> Node:
        r"""The content of braces: a sum, or one `\over` (or `\choose`) another."""
        node = self.sum()
        token = self.peek()
        if token is None or token.kind != "cmd" or token.text not in ("over", "choose"):
            return node
        self.take()
        below = self.sum()
        return Div(node, below) if token.text == "over" else Call("binom", (node, below))

    def sum(self) -> Node:
        terms = [self.product()]
        while self.at("+", "-"):
            sign = self.take().text
            term = self.product()
            terms.append(term if sign == "+" else negative(term))
        return terms[0] if len(terms) == 1 else Add(tuple(terms))

    def product(self) -> Node:
        """Factors from left to right; `a/bc` with a letter below is refused because readers disagree on it."""
        above, below = [self.signed()], []
        slash_letter = False
        while (token := self.peek()) is not None:
            if self.at("*", "/"):
                self.take()
                letter = self.peek() is not None and self.peek().kind in ("word", "letter")
                factor = self.signed()
                (below if token.text == "/" else above).append(factor)
                slash_letter = token.text == "/" and letter
            elif self.starts_factor(token):
                if slash_letter:
                    raise Unreadable("a slash before an implied product has two readings")
                if token.text == "{" and self.between_digits():
                    raise Unreadable("digits in groups side by side")
                above.append(self.power())
            else:
                break
        top = above[0] if len(above) == 1 else Mul(tuple(above))
        if not below:
            return top
        return Div(top, below[0] if len(below) == 1 else Mul(tuple(below)))

    def between_digits(self) -> bool:
        """Whether the group ahead begins with a digit right behind another number: `{5}{6}` prints as 56."""
        before, after = self.tokens[self.index - 1], self.tokens[self.index + 1 : self.index + 2]
        return (before.kind == "num" or before.text == "}") and bool(after) and after[0].kind == "num"

    def signed(self) -> Node:
        minus = self.signs()
        node = self.power()
        return negative(node) if minus else node

    def starts_factor(self, token: Token) -> bool:
        if token.kind in ("word", "letter", "text"):
            return True
        if token.kind == "cmd":
            return token.text not in ("over", "choose")
        if token.kind == "num":
            return self.tokens[self.index - 1].kind not in ("num", "word", "letter")
        return token.kind == "op" and token.text in BRACKETS and not (token.text == "|" and self.bars)

    def power(self) -> Node:
        node = self.postfix(self.atom())
        if not self.at("^"):
            return node
        self.take()
        return self.postfix(Pow(node, self.exponent()))

    def postfix(self, node: Node) -> Node:
        for _ in range(_MAX_POSTFIX):
            if self.at("!"):
                self.take()
                if self.at("!"):
                    raise Unreadable("double factorials are not read")
                node = Call("factorial", (node,))
            elif self.at("%"):
                self.take()
                node = Percent(node)
            elif self.at("°"):
                self.take()
                node = Degree(node)
            else:
                break
        return node

    def exponent(self) -> Node:
        """One TeX argument, or a signed number, as in the plain `10^-5` and `2^10`."""
        minus = self.signs()
        node = self.atom(mixed=False)
        if self.at("^"):
            self.take()
            node = Pow(node, self.exponent())
        return negative(node) if minus else node

    def argument(self) -> Node:
        r"""One TeX argument: a group, or the first digit or letter (`\frac12` is one half)."""
        token = self.peek()
        if token is not None and token.kind in ("num", "word") and len(token.text) > 1:
            if token.kind == "num" and not token.text.isdigit():
                return self.atom(mixed=False)
            first, rest = Token(token.kind, token.text[0]), Token(token.kind, token.text[1:])
            self.tokens[self.index : self.index + 1] = [first, rest]
        return self.atom(mixed=False)
