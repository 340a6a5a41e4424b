"""Policies that come with the project, one folder each in `shipped/`; its README says how they were made."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "shipped"


def folder(name: str) -> Path:
    """The Hugging Face folder of `name`, which lies beside this file, wherever the code runs from."""
    return _FOLDER / name
