"""The console table of a validation."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from stages.generations import generations_table, visible

ROW = {
    "example_id": "q1",
    "prompt": "x" * 300 + " What is 1 + 1?",
    "response": "[bold red]two[/] \x1b[2J\nline",
    "ground_truth": "2",
    "format_reward": 1.0,
    "answer_reward": 0.0,
    "verdict": "wrong",
    "mean_token_entropy": 0.25,
    "num_response_tokens": 7,
}
AVERAGES = {"answer_reward": 0.125, "format_reward": 1.0, "token_entropy": 0.25, "length": 7.0, "length_correct": None}


def printed(rows, averages) -> str:
    out = StringIO()
    Console(file=out, width=118).print(generations_table(rows, averages, "run, step 5"))
    return out.getvalue()


def test_it_shows_the_few_things_one_looks_at():
    text = printed([ROW] * 9, AVERAGES)
    assert "run, step 5: answer 0.125  format 1  entropy 0.25  length 7" in text
    assert "right" not in text
    assert text.count("1 + 1?") == 3
    assert text.count("1/0") == 3
    assert "1/0" not in printed([ROW | {"verdict": None}], AVERAGES)  # an answer that nobody graded
    assert "0.250" in text


def test_what_a_policy_wrote_is_text_and_nothing_else():
    text = printed([ROW], AVERAGES)
    assert "[bold red]two[/]" in text.replace("\n", "")
    assert "\x1b[2J" not in text
    assert visible("a\nb\x1b\u202ec\u00e9") == "a⏎b??cé"


def test_an_unmeasured_entropy_stays_empty():
    assert "0.250" not in printed([ROW | {"mean_token_entropy": None}], {})
