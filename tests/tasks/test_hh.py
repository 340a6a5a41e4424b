"""HH transcripts: single-turn pairs, told apart from everything that is none."""

import gzip
import json

import pytest

from stages.records import DataError
from stages.sources import HhPreferences
from stages.tasks import hh, pairs

PROMPT = "How do I boil an egg?"


def said(*turns):
    return "".join(f"\n\n{speaker}: {text}" for speaker, text in turns)


def pair(better="In water.", worse="No idea.", prompt=PROMPT, other=None):
    return {
        "chosen": said(("Human", prompt), ("Assistant", better)),
        "rejected": said(("Human", other or prompt), ("Assistant", worse)),
    }


def folder(tmp_path, **subsets):
    for name, rows in subsets.items():
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (tmp_path / f"{name.replace('_', '-')}.jsonl.gz").write_bytes(gzip.compress(content))
    return tmp_path


def load(path, *subsets, part=None):
    return hh.load(hh.local_files(path, subsets, "train"), "hh", part)


def test_pairs_of_several_files_say_which_they_are_of(tmp_path):
    path = folder(tmp_path, helpful_base=[pair()], harmless_base=[pair(prompt="a\n\nb", worse="c: d")])
    rows, found = load(path, "helpful-base", "harmless-base")
    assert rows == [
        {
            "example_id": "hh-helpful-base-000001",
            "prompt": PROMPT,
            "chosen": "In water.",
            "rejected": "No idea.",
            "category": "helpful-base",
        },
        {
            "example_id": "hh-harmless-base-000001",
            "prompt": "a\n\nb",
            "chosen": "In water.",
            "rejected": "c: d",
            "category": "harmless-base",
        },
    ]
    assert found == {"kept": 2}


def test_what_is_no_clean_comparison_is_left_out_and_counted(tmp_path):
    longer = said(("Human", PROMPT), ("Assistant", "Well."), ("Human", "And?"), ("Assistant", "Done."))
    cases = [
        pair(),
        {"chosen": longer, "rejected": longer},
        pair() | {"rejected": longer},
        pair(better=""),
        pair() | {"chosen": said(("Human", PROMPT))},
        pair(other="How do I fry one?"),
        pair(worse="In water. "),
    ]
    rows, found = load(folder(tmp_path, helpful_online=cases), "helpful-online")
    assert [row["example_id"] for row in rows] == ["hh-helpful-online-000001"]
    assert found == {"kept": 1, "several_turns": 2, "no_answer": 2, "other_prompt": 1, "same_answer": 1}
    assert pairs.told(found) == (
        "1 of 7 pairs kept; left out: 2 have several turns, 2 lack a prompt or an answer, 1 answer two different "
        "prompts, 1 hold the same answer twice"
    )


def test_parts_share_no_prompt_and_lose_none(tmp_path):
    rows = [pair(prompt=f"Question {number}?") for number in range(300)]
    path = folder(tmp_path, helpful_base=rows)
    parts = {part: load(path, "helpful-base", part=part)[0] for part in ("train", "validation")}
    prompts = {part: {row["prompt"] for row in kept} for part, kept in parts.items()}
    assert not prompts["train"] & prompts["validation"]
    assert sum(map(len, prompts.values())) == 300
    assert 3 <= len(prompts["validation"]) <= 20
    ids = [row["example_id"] for kept in parts.values() for row in kept]
    assert len(set(ids)) == 300


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "Hello", "rejected": "Hi"}, r"helpful-base\.jsonl\.gz:1: field 'chosen' is no transcript"),
        ({"chosen": pair()["chosen"]}, "field 'rejected' is missing"),
        ({**pair(), "rejected": ["x"]}, "field 'rejected' must be a string"),
    ],
)
def test_a_row_that_is_no_transcript_is_named(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        load(folder(tmp_path, helpful_base=[row]), "helpful-base")


def test_a_missing_subset_is_named(tmp_path):
    with pytest.raises(
        DataError, match=r"has no file helpful-base\.jsonl\.gz or helpful-base\.jsonl or .* leave helpful-base out"
    ):
        load(tmp_path, "helpful-base")


def test_folders_as_on_the_hub(tmp_path):
    for split in ("train", "test"):
        (tmp_path / "helpful-base").mkdir(exist_ok=True)
        (tmp_path / "helpful-base" / f"{split}.jsonl").write_text(json.dumps(pair(better=split)) + "\n")
    files = hh.local_files(tmp_path, ["helpful-base"], "test")
    assert hh.load(files, "hh")[0][0]["chosen"] == "test"
    source = HhPreferences(source="hh", hub="Anthropic/hh-rlhf", revision="0" * 40, split="test")
    assert source.file_of("helpful-base").file == "helpful-base/test.jsonl.gz"
