"""Answers in words: yes, Friday, two names; option letters; number names."""

import re

_TEXT = re.compile(
    r"\\(?:text|mbox|hbox|textnormal|textrm|textbf|textit|mathrm|mathbf|operatorname|emph)\s*\{([^{}]*)\}"
)
_ALLOWED = re.compile(r"[\w\s,.'’\-:&%°;?/]*[^\W\d_][\w\s,.'’\-:&%°;?/]*")
_SEPARATOR = re.compile(r"\s*(?:,|;|&|\band\b|\bor\b)\s*")
_ARTICLE = re.compile(r"(?:the|an?)\s+")
_OPTION = re.compile(r"\(?\s*([A-Ha-h])\s*\)?[.:]?")
_LABELLED = re.compile(r"(?:\(\s*([A-H])\s*\)|([A-H])\s*[).:])(?:[:.]\s*|\s+)([\w\\$(-].*)", re.DOTALL)
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])[A-H](?![A-Za-z])")
_NUMBERS = {
    name: str(value)
    for value, name in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()  # noqa: SIM905 (twenty-one lines otherwise)
    )
}
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
    if not _ALLOWED.fullmatch(text):
        return None
    members = (_ARTICLE.sub("", part.strip(), count=1).strip(" .'") for part in _SEPARATOR.split(text.lower()))
    return tuple(sorted(member for member in members if member))


def spelled_out(text: str) -> str | None:
    """The mathematical spelling of a number name up to twenty or of a set phrase, None for other words."""
    words = _ARTICLE.sub("", unwrapped(text).strip(" .").lower(), count=1)
    return _NUMBERS.get(words) or _PHRASES.get(words)


def same_option(gold: str, answer: str) -> bool:
    """Whether the gold is an option letter and the answer the same letter, bracketed or with the option's text."""
    wanted = _OPTION.fullmatch(unwrapped(gold))
    if wanted is None or wanted[1] == "e":  # Euler's number is no option
        return False
    answer = unwrapped(answer)
    given = _OPTION.fullmatch(answer)
    if given is not None:
        return given[1].upper() == wanted[1].upper()
    labelled = _LABELLED.fullmatch(answer)
    if labelled is None or _OTHER_OPTION.search(labelled[3]):
        return False
    return (labelled[1] or labelled[2]) == wanted[1].upper()
