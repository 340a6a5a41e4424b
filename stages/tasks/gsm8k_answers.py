"""GSM8K answers: the last number of an output, the `####` line of a solution, and comparison as numbers."""

import re
from fractions import Fraction

_MAX_DIGITS = 1_000
_CURRENCY = "$€£¥₹"
_NORMALIZED = str.maketrans(
    {
        # fullwidth digits; superscripts stay as they are
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        "\u2212": "-",  # minus sign
        "\uff0d": "-",
        "\ufe63": "-",
        "\u2013": "-",  # en dash, which models print for a minus
        "\u00a0": " ",
        "\u202f": " ",
    }
)
_FIXED_SPACE_GROUP = re.compile(r"(?<=[0-9])[\u00a0\u202f\u2009](?=[0-9]{3}(?![0-9]))")
_LATEX_GROUP = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!|\\,|\\!)(?=[0-9]{3})")
_SPACED_MONEY = re.compile(rf"(?<=[{_CURRENCY}])([0-9]{{1,3}})((?: [0-9]{{3}})+)(?![0-9])")
_NUMBER = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<![0-9])\.[0-9]+")
_UNSIGNED = re.compile(rf"[{_CURRENCY}\\ ]*\Z")
_GOLD = re.compile(rf"([-+]?)[{_CURRENCY}]?(-?)({_NUMBER.pattern})\.?")
_MARKER = re.compile(r"^#### *(\S.*?) *$", re.MULTILINE)


def parse_gsm8k_response(model_output: str) -> str | None:
    """The last number of an output as plain digits with sign and decimals ("-1,234.50" gives "-1234.50").

    Thousands commas, currency signs and a full stop behind the number are dropped. A minus belongs to the
    number unless it joins two terms (`10-5`, `3-5 apples`) or is a hyphen. None where there is no digit.
    """
    text = _FIXED_SPACE_GROUP.sub("", model_output).translate(_NORMALIZED)
    text = _LATEX_GROUP.sub("", text)
    text = _SPACED_MONEY.sub(lambda match: match[1] + match[2].replace(" ", ""), text)
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    last = numbers[-1]
    digits = last.group().replace(",", "")
    if digits.startswith("."):
        digits = "0" + digits
    return "-" + digits if _is_negative(text[max(0, last.start() - 40) : last.start()]) else digits


def _is_negative(before: str) -> bool:
    """Whether the text before a number ends in a sign that belongs to it, looking through currency signs."""
    before = before.removesuffix("\\")  # the backslash of `-\$5` or `\-5`
    stripped = before.rstrip(_CURRENCY + "\\")
    spaced = stripped.rstrip(" ")
    if not spaced.endswith("-"):
        return False
    left = spaced[:-1].rstrip(" ")
    if left[-1:] in ("=", "("):
        return True
    if spaced != stripped:  # "10 - 5" and the bullet "- 5"
        return False
    joins_words = spaced[:-1] == left and left[-1:].isalnum()
    return not (joins_words or left[-1:].isdigit() or left[-1:] in (")", "]", "}", "%") or left.endswith("-"))


def gsm8k_gold(answer: str) -> str:
    """The reference number of a GSM8K solution: the whole of its last `####` line, without commas and currency sign.

    ValueError where there is no such line, or where it holds anything beside one number: `1/2`, `3:45` and
    `12 (not 13)` have a last number as well, which is what is read of a model's output, and none of it is the answer.
    """
    found = _MARKER.findall(answer)
    if not found:
        raise ValueError(f"no '#### <number>' line in the GSM8K answer {answer[-80:]!r}")
    line = _FIXED_SPACE_GROUP.sub("", found[-1]).translate(_NORMALIZED).strip()
    match = _GOLD.fullmatch(line)
    if match is None or (match[1] and match[2]):
        raise ValueError(f"the '####' line of a GSM8K answer is not one number: {found[-1]!r:.80}")
    digits = match[3].replace(",", "")
    return ("-" if "-" in match[1] + match[2] else "") + ("0" if digits.startswith(".") else "") + digits


def gsm8k_numbers_equal(a: str | None, b: str | None) -> bool:
    """Equality as exact numbers: "18.00" equals "18"; None, and text that is no number, equals nothing."""
    left, right = _exact(a), _exact(b)
    return left is not None and left == right


def _exact(text: str | None) -> Fraction | None:
    if text is None or len(text) > _MAX_DIGITS:
        return None
    match = re.fullmatch(r"([+-]?)([0-9]*)(?:\.([0-9]*))?", text.strip().replace(",", ""))
    if match is None or not (match[2] or match[3]):
        return None
    places = match[3] or ""
    value = Fraction(int((match[2] + places) or "0"), 10 ** len(places))
    return -value if match[1] == "-" else value
