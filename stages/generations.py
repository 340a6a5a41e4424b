"""What a validation looks like: a few responses and the averages, as a table for the console and the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from stages.examples import drawn

Row = Mapping[str, Any]
SHOWN = 3
AVERAGES = {
    "answer": "answer_reward",
    "format": "format_reward",
    "entropy": "token_entropy",
    "length": "length",
    "right": "length_correct",
    "wrong": "length_incorrect",
    "loss": "loss",
    "perplexity": "perplexity",
    "preferred": "preference_accuracy",
    "margin": "reward_margin",
}


def generations_table(rows: Sequence[Row], averages: Row, title: str) -> Table:
    """SHOWN rollouts of a validation, of the same questions each time, and what was measured over all (nats, tokens).

    Text of the policy is shown as it is, with line ends made visible; it never acts as markup.
    """
    told = "  ".join(f"{name} {averages[key]:.3g}" for name, key in AVERAGES.items() if averages.get(key) is not None)
    table = Table(title=f"{title}: {told}", title_justify="left", show_lines=True, width=118)
    for name, width in (
        ("prompt, its end", 34),
        ("response", 38),
        ("truth", 8),
        ("f/a", 5),
        ("nats", 6),
        ("tokens", 6),
    ):
        table.add_column(name, width=width, overflow="fold")
    for row in drawn(rows, SHOWN):
        table.add_row(
            Text(visible(row["prompt"][-100:])),
            Text(visible(row["response"])),
            Text(visible(row["ground_truth"])),
            "" if row.get("verdict") is None else f"{row['format_reward']:.0f}/{row['answer_reward']:.0f}",
            "" if row["mean_token_entropy"] is None else f"{row['mean_token_entropy']:.3f}",
            str(row["num_response_tokens"]),
        )
    return table


def visible(text: str) -> str:
    """Line ends as a sign; other control characters, which could command a terminal, as question marks."""
    return "".join("⏎" if c == "\n" else c if c.isprintable() else "?" for c in text)
