"""Recursive descent from tokens to an expression; everything outside the grammar raises Unreadable."""

import re
from fractions import Fraction

from stages.grading.cursor import Cursor
from stages.grading.lexer import Token, canonical
from stages.grading.limits import TooBig, Unreadable
from stages.grading.nodes import (
    Add,
    Apply,
    Call,
    Const,
    Degree,
    Div,
    Mul,
    Node,
    Num,
    Percent,
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
    SEVERAL_ARGUMENTS,
    reads_as_product,
)

_CONSTANTS = {"pi": Const("pi"), "infty": Const("inf"), "inf": Const("inf"), "infinity": Const("inf")}
_PREFIXED = re.compile(r"(arcsin|arccos|arctan|sin|cos|tan|ln|log)([a-zA-Z])")
_OPENING = {"(": ")", "[": "]", "{": "}", "|": "|", "⌊": "⌋", "⌈": "⌉"}
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\overline\s*\{([0-9]+)\}")
_MAX_POSTFIX = 4


def parse_expression(tokens: list[Token]) -> Node:
    """The expression a token list spells, all of it. Raises Unreadable or TooBig."""
    parser = _Parser(tokens)
    node = parser.sum()
    if parser.peek() is not None:
        raise Unreadable(f"unexpected {parser.peek().text!r}")
    return node


def number_literal(text: str) -> Num:
    """An integer, decimal, scientific or repeating decimal literal as an exact rational."""
    if match := _REPEATING.fullmatch(text):
        whole, head, cycle = match.groups()
        tail = Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(head))
        return Num(Fraction(int((whole + head) or "0"), 10 ** len(head)) + tail)
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, part = mantissa.partition(".")
    power = int(exponent or "0")
    if abs(power) > 1_000:
        raise TooBig(f"a decimal exponent of {power}; the limit is 1000")
    value = Fraction(int(whole + part)) * Fraction(10) ** (power - len(part))
    return Num(value, max(0, len(part) - power) if part or exponent else None)


class _Parser(Cursor):
    def __init__(self, tokens: list[Token]):
        super().__init__(tokens)
        self.bars = 0  # open absolute-value bars: inside them a bar closes

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
                above.append(self.power())
            else:
                break
        top = above[0] if len(above) == 1 else Mul(tuple(above))
        if not below:
            return top
        return Div(top, below[0] if len(below) == 1 else Mul(tuple(below)))

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
        return token.kind == "op" and token.text in _OPENING and not (token.text == "|" and self.bars)

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
        if token.text in _OPENING:
            return self.bracket(token.text)
        raise Unreadable(f"unexpected {token.text!r}")

    def bracket(self, opening: str) -> Node:
        if opening == "|":
            self.bars += 1
            node = self.sum()
            self.bars -= 1
        else:
            bars, self.bars = self.bars, 0
            node = self.sum()
            token = self.peek()
            if (
                opening == "{"
                and token is not None
                and token.kind == "cmd"
                and token.text in ("over", "choose")
            ):
                self.take()
                below = self.sum()
                node = Div(node, below) if token.text == "over" else Call("binom", (node, below))
            self.bars = bars
        self.expect(_OPENING[opening])
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
                f"unit {inner}" if inner in ("i", "j", "k", "imath") else f"vec{{{inner}}}"
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
        node = _apply(name, self.function_arguments(), base)
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
        while (
            (token := self.peek()) is not None
            and self.starts_factor(token)
            and not self.names_function(token)
        ):
            factors.append(self.power())
        node = factors[0] if len(factors) == 1 else Mul(tuple(factors))
        return (negative(node) if minus else node,)

    def names_function(self, token: Token) -> bool:
        return token.text in FUNCTION_NAMES or _PREFIXED.fullmatch(token.text) is not None

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


def _apply(name: str, arguments: tuple, base: Node | None) -> Node:
    """A known function; a logarithm without a base keeps its unknown base, so it never equals \\ln."""
    if len(arguments) != 1 and name not in SEVERAL_ARGUMENTS:
        raise Unreadable(f"{name} takes one argument")
    if name == "exp":
        return Pow(Const("e"), arguments[0])
    if name not in ("log", "lg"):
        return Call(name, arguments)
    logarithm = Call("ln", arguments)
    if base is None and name == "log":
        return Mul((logarithm, Sym("1/ln(base)")))
    return Div(logarithm, Call("ln", (base if name == "log" else Num(Fraction(10)),)))
