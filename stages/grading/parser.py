"""Recursive descent from tokens to an expression; everything outside the grammar raises Unreadable."""

import re
from fractions import Fraction

from stages.grading.arithmetic import BRACKETS, Arithmetic
from stages.grading.lexer import Token, canonical
from stages.grading.limits import Unreadable
from stages.grading.literals import apply_function, number_literal
from stages.grading.nodes import (
    Apply,
    Call,
    Const,
    Div,
    Mul,
    Node,
    Num,
    Pow,
    Sym,
    negative,
)
from stages.grading.vocabulary import (
    ACCENTS,
    FUNCTION_ALIASES,
    FUNCTION_NAMES,
    GREEK_LETTERS,
    INVERTIBLE,
    reads_as_product,
)

_CONSTANTS = {"pi": Const("pi"), **dict.fromkeys(("infty", "inf", "infinity", "oo"), Const("inf"))}
_PREFIXED = re.compile(r"(arcsin|arccos|arctan|sin|cos|tan|ln|log)([a-zA-Z])")


def parse_expression(tokens: list[Token]) -> Node:
    """The expression a token list spells, all of it. Raises Unreadable or TooBig."""
    parser = _Parser(tokens)
    node = parser.group()
    if parser.peek() is not None:
        raise Unreadable(f"unexpected {parser.peek().text!r}")
    return node


class _Parser(Arithmetic):
    """Atoms: numbers, letters, functions and brackets."""

    def atom(self, mixed: bool = True) -> Node:
        """A number, letter, function or bracket; all nesting passes through here and is counted."""
        self.descend()
        node = self._atom(self.take(), mixed)
        self.ascend()
        return node

    def _atom(self, token: Token, mixed: bool) -> Node:
        match token.kind:
            case "num":
                return self.mixed(token) if mixed else number_literal(token.text)
            case "letter":
                return self.letter(token.text)
            case "word":
                return self.word(token)
            case "text":
                return self.text(token)
            case "cmd":
                return self.command(token.text)
        if token.text in BRACKETS:
            return self.bracket(token.text)
        raise Unreadable(f"unexpected {token.text!r}")

    def bracket(self, opening: str) -> Node:
        if opening == "|":
            self.bars += 1
            node = self.sum()
            self.bars -= 1
        else:
            bars, self.bars = self.bars, 0
            node = self.group() if opening == "{" else self.sum()
            self.bars = bars
        self.expect(BRACKETS[opening])
        names = {"|": "abs", "⌊": "floor", "⌈": "ceil"}
        return Call(names[opening], (node,)) if opening in names else node

    def mixed(self, token: Token) -> Node:
        r"""A number, with `2\frac{1}{2}` and `2 1/2` as mixed numbers; an improper part behind it is refused."""
        number = number_literal(token.text)
        start, part = self.index, None
        following = self.peek()
        if following is None or not token.text.isdigit():
            return number
        if following.kind == "cmd" and following.text == "frac":
            self.take()
            part = (self.argument(), self.argument())
        elif following.kind == "num" and following.spaced and following.text.isdigit():
            self.take()
            if not self.at("/"):
                raise Unreadable("two numbers side by side")
            self.take()
            part = (number_literal(following.text), self.atom(mixed=False))
        if part is None or not all(isinstance(piece, Num) and piece.value.denominator == 1 for piece in part):
            self.index = start
            return number
        above, below = part
        if not 0 < above.value < below.value:
            raise Unreadable("an integer before an improper fraction has two readings")
        return Num(number.value + above.value / below.value)

    def word(self, token: Token) -> Node:
        word = token.text
        lower = word.lower()
        if lower in _CONSTANTS:
            return _CONSTANTS[lower]
        if lower in GREEK_LETTERS and len(word) > 2:
            return self.subscripted(word)
        if lower in FUNCTION_NAMES or lower in FUNCTION_ALIASES:
            return self.function(FUNCTION_ALIASES.get(lower, lower))
        if match := _PREFIXED.fullmatch(word):
            self.tokens[self.index : self.index] = [Token("letter", match[2])]
            return self.function(match[1])
        if not reads_as_product(word):
            raise Unreadable(f"the word {word!r}")
        self.tokens[self.index - 1 : self.index] = [Token("letter", char) for char in word]
        return self.letter(word[0])

    def letter(self, char: str) -> Node:
        if char in ("e", "i") and not self.at("_", "'"):
            return Const(char)
        node = self.subscripted(char)
        calls = char in "fgFG" or node.name.endswith("'")
        if calls and self.at("(") and not self.peek().spaced:
            return Apply(node.name, self.call_arguments())
        return node

    def subscripted(self, name: str) -> Sym:
        while self.at("_", "'"):
            if self.take().text == "'":
                name += "'"
            else:
                name += f"_{canonical(self.raw_group())}"
        return Sym(name)

    def text(self, token: Token) -> Node:
        if len(token.text) == 1 and token.text.isalpha():
            return self.letter(token.text)
        if token.text.lower() in _CONSTANTS:
            return _CONSTANTS[token.text.lower()]
        raise Unreadable(f"text {token.text!r}")

    def command(self, name: str) -> Node:
        name = FUNCTION_ALIASES.get(name, name)
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in ("i", "imath"):
            return Const("i")
        if name == "frac":
            return Div(self.argument(), self.argument())
        if name == "binom":
            return Call("binom", (self.argument(), self.argument()))
        if name == "root":
            return Pow(self.atom(mixed=False), Num(Fraction(1, 2)))
        if name in FUNCTION_NAMES:
            return self.function(name)
        if name in GREEK_LETTERS or name.startswith(("mathcal{", "mathscr{", "unit ")):
            return self.subscripted(name)
        if name in ACCENTS:
            inner = canonical(self.raw_group())
            return self.subscripted(
                f"unit {inner}" if inner in ("i", "j", "k", "imath") else f"{ACCENTS[name]}{{{inner}}}"
            )
        if name in ("angle", "triangle"):
            return Sym(f"{name} {canonical(self.raw_group())}")
        raise Unreadable(f"the command \\{name}")

    def function(self, name: str) -> Node:
        if name in ("sqrt", "cbrt"):
            return self.radical(name)
        power, base = None, None
        for _ in range(2):
            if power is None and self.at("^"):
                self.take()
                power = self.exponent()
            elif base is None and name == "log" and self.at("_"):
                self.take()
                base = self.argument() if self.at("{") else self.atom(mixed=False)
        if power == Num(Fraction(-1)) and name in INVERTIBLE:
            name, power = "arc" + name, None
        node = apply_function(name, self.function_arguments(), base)
        return node if power is None else Pow(node, power)

    def radical(self, name: str) -> Node:
        index: Node = Num(Fraction(3 if name == "cbrt" else 2))
        if self.at("["):
            self.take()
            index = self.sum()
            self.expect("]")
        whole = self.tokens[self.index - 1].kind == "word"  # the plain `sqrt 13`, not the TeX macro
        inside = self.atom(mixed=False) if whole else self.argument()
        if isinstance(index, Num) and index.value > 0 and index.value % 2 == 1:
            return Call("root", (inside, index))  # odd roots of negative numbers are real
        return Pow(inside, Div(Num(Fraction(1)), index))

    def function_arguments(self) -> tuple:
        r"""`(a, b)` or, without brackets, the implied product up to the next function: `\sin b\cos a`."""
        if self.at("("):
            return self.call_arguments()
        minus = self.signs()
        factors = [self.power()]
        while self.continues_argument():
            factors.append(self.power())
        node = factors[0] if len(factors) == 1 else Mul(tuple(factors))
        return (negative(node) if minus else node,)

    def continues_argument(self) -> bool:
        token = self.peek()
        if token is None or not self.starts_factor(token):
            return False
        return token.text not in FUNCTION_NAMES and _PREFIXED.fullmatch(token.text) is None

    def call_arguments(self) -> tuple:
        self.expect("(")
        bars, self.bars = self.bars, 0
        arguments = [self.sum()]
        while self.peek() is not None and self.peek().kind == "sep" and self.peek().text == ",":
            self.take()
            arguments.append(self.sum())
        self.expect(")")
        self.bars = bars
        return tuple(arguments)
