"""Questions that held-out datasets share with what was trained on, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages import records
from stages.records import EXAMPLES, INSTRUCTIONS
from stages.reporting import overlap
from stages.reporting.overlap import Overlap


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    asked = {
        "train": ["What is 1 + 1?", "What is 2 + 2?", "What is 3 + 3?"],
        "validation": ["What is 5 + 5?", "what  is 2 + 2?\n", "What is 2 + 2?"],
        "test": ["WHAT IS 5 + 5?", "What is 9 + 9?"],
    }
    for name, questions in asked.items():
        rows = [{"example_id": str(at), "question": text, "ground_truth": "4"} for at, text in enumerate(questions)]
        records.write_table(tmp_path / name, records.table(rows, EXAMPLES))
    row = {"example_id": "a", "prompt": "What is 9 + 9?", "response": "18"}
    records.write_table(tmp_path / "chats", records.table([row], INSTRUCTIONS))
    return {name: str(tmp_path / name) for name in (*asked, "chats")}


def test_case_and_white_space_make_no_other_question(files: dict[str, str]):
    roles = {"train": ["train", "chats", "no_file"], "validation": ["validation"], "test": ["test"], "asked": []}
    found = overlap.overlaps(roles, files)
    assert found == [
        Overlap("test", "train", "train", 0, 2),
        Overlap("test", "chats", "train", 1, 2),
        Overlap("validation", "train", "train", 2, 3),
        Overlap("validation", "chats", "train", 0, 3),
        Overlap("test", "validation", "validation", 1, 2),
    ]
    assert overlap.sentences(found) == [
        "Of the 2 questions of test, 0 stand in train, 1 stand in chats and 1 stand in validation.",
        "Of the 3 questions of validation, 2 stand in train and 0 stand in chats.",
    ]
    assert overlap.warnings(found) == [
        "1 of the 2 questions of test stand in chats as well, which is trained on: so much of a score is memory.",
        "2 of the 3 questions of validation stand in train as well, which is trained on: so much of a score is memory.",
        "1 of the 2 questions of test stand in validation as well, which chose the winners.",
    ]


def test_what_shares_nothing_needs_no_warning(files: dict[str, str]):
    found = overlap.overlaps({"train": ["train"], "test": ["test"]}, files)
    assert overlap.warnings(found) == []
    assert overlap.sentences(found) == ["Of the 2 questions of test, 0 stand in train."]
    assert overlap.overlaps({}, files) == []
