"""Untrusted text made safe to look at: what every medium (console, page, Markdown) shows of it."""

from __future__ import annotations

import unicodedata

UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode categories: control, invisible, direction-changing


def plain(text: str) -> str:
    """The text, control, invisible and direction-changing characters as escapes; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if character in "\n\t" else escaped(character) for character in text)


def escaped(character: str) -> str:
    """As it is, or, of UNSEEN, as Python writes it."""
    if unicodedata.category(character) not in UNSEEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
