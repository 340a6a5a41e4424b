r"""The tokenizer: LaTeX and plain mathematics to a flat list of tokens with one spelling a meaning."""

import re
from dataclasses import dataclass

from stages.grading.limits import MAX_DEPTH, MAX_DIGITS, MAX_TOKENS, TooBig, Unreadable
from stages.grading.units import lookup
from stages.grading.vocabulary import (
    ALPHABETS,
    COMMAND_ALIASES,
    FUNCTION_NAMES,
    OPERATORS,
    SAME_SIGN,
    SIGN_COMMANDS,
    STYLE_COMMANDS,
    TEXT_COMMANDS,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is num, word, cmd, text, sep or op; `spaced` says whether white space stood before it."""

    kind: str
    text: str
    spaced: bool = False


_SLANTED = frozenset(
    ("mathbf", "mathit", "boldsymbol", "bm", "textit", "textbf", "emph")
)  # their letters are variables
_UPRIGHT_LETTERS = frozenset("eidπ")
_PLAIN_WORDS = re.compile(r"[A-Za-z°.,'\"\-/()&: \n?]*[A-Za-z][A-Za-z°.,'\"\-/()&: \n?]*")
_UNIT_QUOTIENT = re.compile(r"[A-Za-z][A-Za-z ]*(?:\^\{?[23]\}?)?/[A-Za-z ]+(?:\^\{?[23]\}?)?")
_UNIT_POWER = re.compile(r"([A-Za-z]+)\^\{?[23]\}?")
_TEXT_FUNCTIONS = frozenset(("cis", "gcd", "lcm", "sin", "cos", "tan", "ln", "log"))  # not min and sec, which are units
_LISTING_DEPTH = {
    "(": 1,
    "[": 1,
    "\\{": 1,
    "⟨": 1,
    ")": -1,
    "]": -1,
    "\\}": -1,
    "⟩": -1,
}  # where commas separate
_LEXEME = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<repeating>[0-9]*\.[0-9]*\\overline\s*\{[0-9]+\})"
    r"|(?P<grouped>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?)"
    r"|(?P<underscored>[0-9]{1,3}(?:_[0-9]{3})+(?![0-9_]))"
    r"|(?P<num>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,12}(?![0-9A-Za-z.]))?)"
    r"|\\(?P<cmd>[A-Za-z]+)\*?"
    r"|(?P<escaped>\\[^A-Za-z\s])"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<op>\*\*|<=|>=|!=|==|.)",
    re.DOTALL,
)


def tokenize(text: str, grouping: bool = True, depth: int = 0) -> list[Token]:
    """Tokens of a normalised answer. `grouping` False reads `1,234` as two numbers even outside brackets.

    Raises TooBig past MAX_TOKENS or MAX_DIGITS and Unreadable for characters outside mathematics.
    """
    if depth > MAX_DEPTH:
        raise TooBig(f"text macros nested deeper than {MAX_DEPTH} levels")
    tokens: list[Token] = []
    index, spaced, bracket_depth = 0, False, 0
    while index < len(text):
        match = _LEXEME.match(text, index)
        kind, lexeme = match.lastgroup, match.group(match.lastgroup)
        index = match.end()
        if kind == "space":
            spaced = True
            continue
        if kind == "grouped" and (bracket_depth or not grouping):
            kind, lexeme = "num", lexeme.split(",")[0]
            index = match.start() + len(lexeme)
        known = len(tokens)
        if kind == "cmd":
            index = _command(text, index, Token("cmd", lexeme, spaced), tokens, depth)
        else:
            tokens.append(_simple_token(kind, lexeme, spaced))
        bracket_depth += sum(_LISTING_DEPTH.get(token.text, 0) for token in tokens[known:])
        spaced = False
        if len(tokens) > MAX_TOKENS:
            raise TooBig(f"more than {MAX_TOKENS} symbols")
    return tokens


def _simple_token(kind: str, lexeme: str, spaced: bool) -> Token:
    if kind in ("num", "grouped", "underscored", "repeating"):
        if len(lexeme) > MAX_DIGITS:
            raise TooBig(f"a number of {len(lexeme)} digits; the limit is {MAX_DIGITS}")
        return Token("num", lexeme.replace(",", "").replace("_", ""), spaced)
    if kind == "word":
        separates = lexeme.lower() in ("and", "or")
        return Token("sep", lexeme.lower(), spaced) if separates else Token("word", lexeme, spaced)
    lexeme = SAME_SIGN.get(lexeme, lexeme)
    if lexeme in SIGN_COMMANDS:
        return _named(SIGN_COMMANDS[lexeme], spaced)
    if ord(lexeme[-1]) < 32 or 0xD800 <= ord(lexeme[-1]) < 0xE000:
        raise Unreadable("a control character or half of a surrogate pair")
    return Token("sep" if lexeme in (",", ";") else "op", lexeme, spaced)


def _named(name: str, spaced: bool) -> Token:
    name = COMMAND_ALIASES.get(name, name)
    sign = OPERATORS.get(name)
    if sign in ("and", "or"):
        return Token("sep", sign, spaced)
    return Token("cmd", name, spaced) if sign is None else Token("op", sign, spaced)


def _command(text: str, index: int, command: Token, tokens: list[Token], depth: int) -> int:
    """Appends the tokens of a command and its textual argument; returns where reading goes on."""
    name, spaced = command.text, command.spaced
    if name in ("begin", "end"):
        content, index = _argument(text, index)
        if name == "begin" and content.strip("*") == "array":
            _, index = _argument(text, index)
        tokens.append(Token("op", f"{name} {content.strip().rstrip('*')}", spaced))
    elif name in TEXT_COMMANDS or name in STYLE_COMMANDS:
        content, index = _argument(text, index)
        tokens.extend(_styled(content.strip(), command, depth))
    elif name in ALPHABETS:
        content, index = _argument(text, index)
        tokens.append(Token("cmd", f"{name}{{{content.strip()}}}", spaced))
    else:
        tokens.append(_named(name, spaced))
    return index


def _argument(text: str, index: int) -> tuple[str, int]:
    """The braced group or single character after a command, and the index behind it."""
    while index < len(text) and text[index].isspace():
        index += 1
    if index >= len(text):
        raise Unreadable("a command without its argument")
    if text[index] != "{":
        return text[index], index + 1
    depth, start = 0, index
    while index < len(text):
        if text[index] == "\\":
            index += 1
        elif text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : index], index + 1
        index += 1
    raise Unreadable("an unclosed brace")


def _styled(content: str, command: Token, depth: int) -> list[Token]:
    r"""`\text{cats}` is one text token, `\text{13}` and `\mathbf{10}` are their content, `\text{or}` separates."""
    name, spaced = command.text, command.spaced
    words = content.strip(" ,.;").lower()
    if not content:
        return []
    if words in ("and", "or"):
        return [Token("sep", words, spaced)]
    if name in ("mathbf", "boldsymbol", "bm") and content in ("i", "j", "k"):
        return [Token("cmd", f"unit {content}", spaced)]
    if name in STYLE_COMMANDS and len(content) == 1 and (name != "mathrm" or content in _UPRIGHT_LETTERS):
        return [_simple_token("num" if content.isdigit() else "word", content, spaced)]
    if content in (FUNCTION_NAMES if name in STYLE_COMMANDS else _TEXT_FUNCTIONS):
        return [Token("cmd", content, spaced)]
    text = Token("text", " ".join(content.split()), spaced)
    if _PLAIN_WORDS.fullmatch(content) or _UNIT_QUOTIENT.fullmatch(content):
        return [text]
    power = _UNIT_POWER.fullmatch(content)
    if power and name not in _SLANTED and lookup(power[1]):
        return [text]
    inner = tokenize(content, depth=depth + 1)
    wordy = any(token.kind == "word" and len(token.text) > 1 for token in inner)
    if name in TEXT_COMMANDS and wordy and inner[0].kind != "num":
        return [text]
    return [Token("op", "{", spaced), *inner, Token("op", "}")]


def canonical(tokens: list[Token]) -> str:
    """One spelling for a token list, to compare as text what the grammar does not read."""
    parts = []
    for index, token in enumerate(tokens):
        single = 0 < index < len(tokens) - 1 and tokens[index - 1].text == "{" and tokens[index + 1].text == "}"
        if single and index > 1 and tokens[index - 2].text in ("^", "_"):
            parts[-1] = ""  # x_{1} is x_1
            parts.append(token.text)
            continue
        closes_single = token.text == "}" and index > 2 and tokens[index - 2].text == "{" and parts[index - 2] == ""
        parts.append("" if closes_single else token.text)
    return " ".join(part for part in parts if part)
