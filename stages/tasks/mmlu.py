"""MMLU (Hendrycks et al., arXiv 2009.03300): four options, one of them right, in 57 subjects.

A question is asked in the assignment's multiple-choice form. Its ground truth keeps what reading an answer takes, and
the subject: `mmlu:{"answer": "B", "options": [...], "subject": "college physics"}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stages.records import DataError
from stages.strict import nearest
from stages.tasks.files import Reading, examples, read_cells
from stages.tasks.prompts import render
from stages.tasks.rows import BadRow, refuse_half_characters, text
from stages.tasks.verifiers import ground_truth_for

LETTERS = "ABCD"
Row = dict[str, Any]


def load_folder(folder: Path, name: str, split: str, subjects: Sequence[str] | None = None) -> list[Row]:
    """EXAMPLES rows of the original CSV files, `<subject>_<split>.csv` in `folder` or in its folder of the split.

    A row is question, four options, letter. Ids are `<name>-<subject>-<number>`. Raises DataError naming file and line.
    """
    files = _files(folder, split)
    _known(subjects, list(files), str(folder))
    wanted = subjects or list(files)
    return [row for subject in files if subject in wanted for row in _csv(files[subject], name, subject)]


def _files(folder: Path, split: str) -> dict[str, Path]:
    end = f"_{split}.csv"
    found = {path.name.removesuffix(end): path for place in (folder / split, folder) for path in place.glob(f"*{end}")}
    if not found:
        raise DataError(f"{folder}: no file named <subject>{end} in it or in {split}/; name the folder that has them")
    return dict(sorted(found.items()))


def _csv(path: Path, name: str, subject: str) -> Iterator[Row]:
    for index, (number, cells) in enumerate(read_cells(path), 1):
        where = f"{path}:{number}"
        if len(cells) != 6:
            raise DataError(f"{where}: {len(cells)} cells; a row is a question, four options and a letter")
        question, *options, letter = cells
        if letter not in list(LETTERS):
            raise DataError(f"{where}: the answer must be A, B, C or D (got {letter!r:.40})")
        example = _example(text({"question": question}, "question", where), options, letter, subject)
        yield {"example_id": f"{name}-{subject}-{index:06d}", **example}


def load_rows(
    files: Sequence[Path], name: str, subjects: Sequence[str] | None = None, reading: Reading | None = None
) -> list[Row]:
    """EXAMPLES rows of the Hub's form: `question`, `choices` (four), `answer` (0 to 3), `subject`. Raises DataError."""
    subject_at: dict[str, str] = {}

    def convert(row: Row, where: str) -> Row:
        subject, options, answer = text(row, "subject", where), row.get("choices"), row.get("answer")
        if not isinstance(options, list) or len(options) != 4 or not all(isinstance(one, str) for one in options):
            raise BadRow(where, "field 'choices' must be four strings", f" (got {options!r:.80})")
        for option in options:
            refuse_half_characters(option, "choices", where)
        if isinstance(answer, bool) or answer not in range(4):
            raise BadRow(where, "field 'answer' must be 0, 1, 2 or 3", f" (got {answer!r:.40})")
        example = _example(text(row, "question", where), options, LETTERS[int(answer)], subject)
        subject_at[example["ground_truth"]] = subject
        return example

    rows = examples(files, name, convert, reading)
    _known(subjects, sorted(set(subject_at.values())), ", ".join(map(str, files)))
    return [row for row in rows if not subjects or subject_at[row["ground_truth"]] in subjects]


def _known(subjects: Sequence[str] | None, there: list[str], where: str) -> None:
    for subject in subjects or ():
        if subject not in there:
            raise DataError(f"{where}: no subject {subject!r}; {nearest(subject, there)}")


def _example(question: str, options: list[str], letter: str, subject: str) -> Row:
    named = subject.replace("_", " ")
    return {
        "question": render("mmlu_zero_shot", subject=named, question=question, options=options),
        "ground_truth": ground_truth_for("mmlu", {"answer": letter, "options": options, "subject": named}),
        "response": None,
    }
