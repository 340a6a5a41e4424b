"""Answers in words: yes, Friday, two names; option letters; number names."""

import re

_TEXT = re.compile(
    r"\\(?:text|mbox|hbox|textnormal|textrm|textbf|textit|mathrm|mathbf|operatorname|emph)\s*\{([^{}]*)\}"
)
_ALLOWED = re.compile(r"[\w\s,.'’\-:&%°;?/]*[^\W\d_][\w\s,.'’\-:&%°;?/]*")
_SEPARATOR = re.compile(r"\s*(?:,|;|&|\band\b|\bor\b)\s*")
_ARTICLE = re.compile(r"(?:the|an?)\s+")
_OPTION = re.compile(r"(?:(?:[Oo]ption|[Cc]hoice)\s+)?\(?\s*([A-Ha-h])\s*\)?[.:]?")
_OPTIONS = re.compile(r"\(?[A-H]\)?(?:\s*(?:[,;&]|and\b)?\s*\(?[A-H]\)?)+")
_LABELLED = re.compile(r"(?:\(\s*([A-H])\s*\)|([A-H])\s*[).:])(?:[:.]\s*|\s+)([\w\\$(-].*)", re.DOTALL)
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])[A-H](?![A-Za-z])")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"(?P<day>[0-9]{1,2})(?:\s?(?:st|nd|rd|th))?", r"(?:(?:,\s*|\s+)(?P<year>[0-9]{4}))?"
_MONTH_FIRST = re.compile(rf"{_MONTH}\s+{_DAY}{_YEAR}", re.IGNORECASE)
_DAY_FIRST = re.compile(rf"(?:the\s+)?{_DAY}(?:\s+of)?\s+{_MONTH}{_YEAR}", re.IGNORECASE)
_NUMBERS = {
    name: str(value)
    for value, name in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()  # noqa: SIM905 (twenty-one lines otherwise)
    )
}
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_UNITS = tuple(_NUMBERS)[1:10]
for _place, _ten in enumerate(_TENS, start=2):
    _NUMBERS[_ten] = str(10 * _place)
    _NUMBERS |= {f"{_ten}{join}{unit}": f"{_place}{_NUMBERS[unit]}" for unit in _UNITS for join in "- "}
_NUMBERS |= {"hundred": "100", "one hundred": "100", "half": "1/2"}
for _words, _value in {
    "one half": "1/2",
    "one third": "1/3",
    "two thirds": "2/3",
    "one quarter": "1/4",
    "one fourth": "1/4",
    "three quarters": "3/4",
    "three fourths": "3/4",
}.items():
    _NUMBERS |= {_words: _value, _words.replace(" ", "-"): _value}
_PHRASES = {
    "all real numbers": "\\mathbb{R}",
    "all reals": "\\mathbb{R}",
    "real numbers": "\\mathbb{R}",
    "empty set": "\\emptyset",
    "no solution": "\\emptyset",
    "no solutions": "\\emptyset",
    "dne": "does not exist",
}


def unwrapped(text: str) -> str:
    r"""The text without `\text{}` around parts of it."""
    for _ in range(4):
        text, count = _TEXT.subn(r" \1 ", text)
        if not count:
            break
    return " ".join(text.split())


def phrase(text: str) -> tuple[str, ...] | None:
    """Lower-case words as a sorted list of the members of an enumeration; None if it is not prose."""
    text = unwrapped(text).strip(" .?;:,'\"")
    if day := _date(text):
        return day
    if not _ALLOWED.fullmatch(text):
        return None
    members = (_ARTICLE.sub("", part.strip(), count=1).strip(" .'") for part in _SEPARATOR.split(text.lower()))
    return tuple(sorted(member for member in members if member))


def _date(text: str) -> tuple[str, ...] | None:
    """(month, day, year) of `July 4`, `4th of July`, `July 4th, 2020`."""
    match = _MONTH_FIRST.fullmatch(text) or _DAY_FIRST.fullmatch(text)
    return match and (match["month"][:3].lower(), match["day"].lstrip("0"), match["year"] or "")


def spelled_out(text: str) -> str | None:
    """The mathematical spelling of a number name up to twenty or of a set phrase, None for other words."""
    words = _ARTICLE.sub("", unwrapped(text).strip(" .").lower(), count=1)
    return _NUMBERS.get(words) or _PHRASES.get(words)


def same_option(gold: str, answer: str) -> bool:
    """Whether the gold is an option letter and the answer the same letter, bracketed or with the option's text."""
    gold, answer = unwrapped(gold), unwrapped(answer)
    wanted = _OPTION.fullmatch(gold)
    if wanted is None:
        if gold == answer and _LABELLED.fullmatch(gold):
            return True
        return _names_option(gold, answer) or _same_options(gold, answer)
    if wanted[1] == "e":  # Euler's number is no option
        return False
    given = _OPTION.fullmatch(answer)
    if given is not None:
        return given[1].upper() == wanted[1].upper()
    return _names_option(answer, gold)


def _names_option(labelled: str, letter: str) -> bool:
    """Whether `(B) 12` carries the label of the option `B`, and no other letter."""
    label, option = _LABELLED.fullmatch(labelled), _OPTION.fullmatch(letter)
    if label is None or option is None or _OTHER_OPTION.search(label[3]):
        return False
    return (label[1] or label[2]) == option[1].upper()


def _same_options(gold: str, answer: str) -> bool:
    """`ABD` for `A, B, D`: several options with and without commas."""
    letters = []
    for text in (gold, answer):
        found = re.findall(r"[A-H]", text) if _OPTIONS.fullmatch(text) else []
        if len(set(found)) != len(found) or not found:
            return False
        letters.append(sorted(found))
    return letters[0] == letters[1] and gold.isalpha() != answer.isalpha()
