r"""Text clean-up before the lexer: Unicode, TeX cosmetics, delimiters, thousands groups.

Only what cannot change a value is touched: `\left`, spacing, `$...$`, markdown bold, fullwidth characters, invisible
format characters. Everything with meaning is left to the lexer and the grammar.
"""

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿˣ", "0123456789+-()nx")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙ", "0123456789+-()n")
_RAISED = re.compile(r"(?<=[^\s+\-*/=(\[{,])[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿˣ]+")
_LOWERED = re.compile(r"(?<=[^\s+\-*/=(\[{,])[₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙ]+")
_PUNCTUATION = str.maketrans(
    {
        **{chr(0xFF01 + k): chr(0x21 + k) for k in range(94)},  # fullwidth ASCII
        "\u3000": " ",
        "、": ",",
        "。": ".",
        "−": "-",
        "﹣": "-",
        "–": "-",
        "—": "-",
        "‐": "-",
        "‑": "-",
        "’": "'",
        "‘": "'",
        "′": "'",
        "“": '"',
        "”": '"',
        "⁄": "/",
        "∕": "/",
        "÷": "/",
        "＊": "*",
        "∗": "*",
        "⋅": "*",
        "·": "*",
        "•": "*",
        "∶": ":",
        "∣": "|",
    }
)
_SIZING = re.compile(r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])(?:\s*\.)?")
_STYLE = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|boldmath|rm|bf|it|sf|tt|large|Large|"
    r"normalsize|small|mathstrut|strut|nonumber|notag|allowbreak|nobreak)(?![A-Za-z])"
)
_SPACING = re.compile(
    r"(?<!\\)\\[,:;> ]|~|\\(?:quad|qquad|enspace|thinspace|medspace|thickspace|enskip|hfill)(?![A-Za-z])|"
    r"\\(?:hspace|vspace|phantom|hphantom|vphantom|mspace|label)\*?\{[^{}]*\}|&nbsp;"
)
_TEX_GROUP = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!|\{,\\!\}|\\,|\\:|\\;|\\ )\s?(?=[0-9]{3}(?![0-9]))")
_SPACED_GROUP = re.compile(r"([+-]?¤?)([0-9]{1,3}(?:[ \u2009\u202f\u00a0][0-9]{3})+)((?:\.[0-9]+)?)")
_CIRCLE = re.compile(r"\^\s*(?:\{\s*(?:\\circ|°|∘|\\degree)\s*\}|\\circ(?![A-Za-z])|∘|°|\\degree(?![A-Za-z]))")
_ORDINAL = re.compile(r"\^\s*\{?\s*\\(?:text|textrm|mathrm)\s*\{\s*(st|nd|rd|th)\s*\}\s*\}?")
_PLAIN_ORDINAL = re.compile(r"(?<=[0-9])\^\s*\{\s*(st|nd|rd|th)\s*\}")
_FOR_ALL = re.compile(  # a closing "for all x", "for every real x", "for any n \in \mathbb{N}" adds nothing
    r"(?:\\text\s*\{\s*)?\bfor (?:all|any|every)(?: real)?\s*\}?\s*[A-Za-z](?:\s*\\in\s*\\mathbb\s*\{?[CNQRZ]\}?)?\}?$"
)
_TEXT_SIGN = re.compile(r"\\text\s*\{\s*([^\w\s{}\\])\s*\}")
_OUTWARD = re.compile(r"(^|\\cup|\\in|∪|∈|=)(\s*)([\[\]])([^\[\]()]*,[^\[\]()]*)([\[\]])(?=\s*(?:$|\\cup|∪))")
_BOLD = re.compile(r"(\*{1,3}|__|`{1,3})(.+)\1", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox|framebox|ensuremath|underline)\s*\{")
_COLOR = re.compile(r"\\(?:color|textcolor)(?:\[[A-Za-z]*\])?\s*\{[^{}]*\}")
_ROW_SKIP = re.compile(r"(\\\\)\s*\[\s*-?[0-9.]+\s*(?:pt|em|ex|mm|cm|in)\s*\]")
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\[", "\\]"), ("\\(", "\\)"))


def normalize(text: str) -> str:
    """The text with TeX and Unicode cosmetics removed; `¤` stands for a dollar sign meant as money."""
    if not text.isascii():
        text = _plain_unicode(text)
    text = _halve_backslashes(text)
    text = _COLOR.sub("", text)
    text = _ROW_SKIP.sub(r"\1", text)
    text = text.replace("+/-", "±")
    text = _unwrap(text.strip())
    text = _TEX_GROUP.sub("", text)
    text = re.sub(r"(?<!\\)\\!", "", text)
    text = _dollars(text)
    text = re.sub(r"(?<!\\)\\[\[\]()]", " ", text)
    text = _ORDINAL.sub(r"\\text{ \1}", text)
    text = _PLAIN_ORDINAL.sub(r"\\text{ \1}", text)
    text = _TEXT_SIGN.sub(r"\1", text)
    text = _CIRCLE.sub("°", text)
    text = _SIZING.sub("", text)
    text = _OUTWARD.sub(_inward, text)
    text = _STYLE.sub(" ", text)
    text = _SPACING.sub(" ", text)
    text = _FOR_ALL.sub("", text.strip()).rstrip(" ,") or text.strip()
    if match := _SPACED_GROUP.fullmatch(text):
        text = match[1] + "".join(match[2].split()) + match[3]
    return text


def _plain_unicode(text: str) -> str:
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = text.translate(_PUNCTUATION)
    text = _RAISED.sub(lambda match: "^{" + match.group().translate(_SUPERSCRIPTS) + "}", text)
    text = _LOWERED.sub(lambda match: "_{" + match.group().translate(_SUBSCRIPTS) + "}", text)
    return "".join(_plain_character(char) for char in text)


def _plain_character(char: str) -> str:
    if char.isascii():
        return char
    if unicodedata.category(char) == "Nd":  # decimal digits of any script
        return str(unicodedata.decimal(char))
    if "VULGAR FRACTION" in unicodedata.name(char, "") and "NUMERATOR" not in unicodedata.name(char):
        above, _, below = unicodedata.normalize("NFKC", char).partition("\u2044")
        return f"\\frac{{{above}}}{{{below}}}"
    return " " if char.isspace() else char


def _halve_backslashes(text: str) -> str:
    r"""`\\frac` (escaped once too often) becomes `\frac`; the row breaks of a matrix stay."""
    if "\\\\" not in text:
        return text
    if "\\begin" in text and "\\\\begin" not in text:
        return text
    return text.replace("\\\\", "\\")


def _unwrap(text: str) -> str:
    """Takes off what encloses the whole answer: math delimiters, bold, a box, a full stop."""
    for _ in range(8):
        before = text
        for opening, closing in _DELIMITERS:
            inner = text[len(opening) : len(text) - len(closing)]
            if text.startswith(opening) and text.endswith(closing) and inner.strip() and closing not in inner:
                text = inner.strip()
        if match := _BOLD.fullmatch(text):
            text = match[2].strip()
        if (match := _BOX.match(text)) and closes_at_end(text, match.end() - 1):
            text = text[match.end() : -1].strip()
        if text.endswith((".", ",", ";")) and not text.endswith(("..", "\\,", "\\;")) and len(text) > 1:
            text = text[:-1].rstrip()
        if len(text) > 2 and text[0] == text[-1] == '"':
            text = text[1:-1].strip()
        if text.endswith("\\"):  # a line break
            text = text[:-1].rstrip()
        if text == before:
            break
    return text


def _inward(match: re.Match) -> str:
    """`]0,1[` is written `(0,1)`."""
    before, space, opening, inside, closing = match.groups()
    return f"{before}{space}{'(' if opening == ']' else '['}{inside}{')' if closing == '[' else ']'}"


def closes_at_end(text: str, opening: int) -> bool:
    """Whether the brace at index `opening` is closed by the last character of the text."""
    depth = 0
    index = opening
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return index == len(text) - 1
        index += 1
    return False


def _dollars(text: str) -> str:
    r"""`\$` and a lone `$` before a number are money; paired dollars delimit mathematics and go."""
    text = text.replace("\\$", "¤").replace("$$", "$")
    if text.count("$") % 2:
        text = re.sub(r"\$(?=\s*[0-9.-])", "¤", text, count=1)
    return text.replace("$", " ")
