"""Answers in words: yes, Friday, two names; option letters; number names."""

import re

_TEXT = re.compile(
    r"\\(?:text|mbox|hbox|textnormal|textrm|textbf|textit|mathrm|mathbf|operatorname|emph)\s*\{([^{}]*)\}"
)
_ALLOWED = re.compile(r"[\w\s,.'’\-:&%°;!?/]*[^\W\d_][\w\s,.'’\-:&%°;!?/]*")
_SEPARATOR = re.compile(r"\s*(?:,|;|&|\band\b|\bor\b)\s*")
_ARTICLE = re.compile(r"(?:the|an?)\s+")
_OPTION = re.compile(r"\(?\s*([A-Ja-j])\s*\)?[.:]?")
_LABELLED = re.compile(r"(?:\(\s*([A-J])\s*\)|([A-J])\s*[).:])[\s:.]*(\S.*)", re.DOTALL)
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_NUMBERS = {
    name: str(value)
    for value, name in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()  # noqa: SIM905 (twenty-one lines otherwise)
    )
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
    text = unwrapped(text).strip(" .!?;:,'\"")
    if not _ALLOWED.fullmatch(text):
        return None
    members = (
        _ARTICLE.sub("", part.strip(), count=1).strip(" .'") for part in _SEPARATOR.split(text.lower())
    )
    return tuple(sorted(member for member in members if member))


def number_name(text: str) -> str | None:
    """Digits for a number name up to twenty."""
    return _NUMBERS.get(unwrapped(text).strip(" .").lower())


def same_option(gold: str, answer: str) -> bool:
    """Whether the gold is an option letter and the answer the same letter, bracketed or with the option's text."""
    wanted = _OPTION.fullmatch(unwrapped(gold))
    if wanted is None:
        return False
    answer = unwrapped(answer)
    given = _OPTION.fullmatch(answer)
    if given is not None:
        return given[1].upper() == wanted[1].upper()
    labelled = _LABELLED.fullmatch(answer)
    if labelled is None or _OTHER_OPTION.search(labelled[3]):
        return False
    return (labelled[1] or labelled[2]) == wanted[1].upper()
