"""Samples at several points of training, chosen by a rule a reader can check, printed so that nothing hides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import records
from stages.examples import drawn
from stages.plain import escaped
from stages.records import ROLLOUTS

Row = Mapping[str, Any]
COLUMNS = [
    "example_id",
    "step",
    "rollout_batch",
    "sample_index",
    "prompt",
    "response",
    "finish_reason",
    "ground_truth",
    "format_reward",
    "answer_reward",
    "reward",
    "verdict",
    "advantage",
    "mean_token_entropy",
    "num_response_tokens",
    "seed",
    "model",
    "run",
]
FATES = {
    "learned": "not correct at first, correct at the end",
    "lost": "correct at first, not at the end",
    "kept": "correct at first and at the end",
    "missed": "correct neither at first nor at the end",
    "ungraded": "to be read: nothing graded it",
}
PER_FATE = {"learned": 2, "lost": 1, "kept": 1, "missed": 2, "ungraded": 4}


@dataclass(frozen=True)
class Story:
    """One question at several steps of training; `samples` are rollout rows in step order."""

    fate: str
    example_id: str
    samples: tuple[Row, ...]


@dataclass(frozen=True)
class Stories:
    """What became of the questions that were sampled both at the first and at the last step, and some of each kind."""

    first: int
    last: int
    counts: Mapping[str, int]
    chosen: tuple[Story, ...]


def read_rollouts(path: Path) -> list[dict[str, Any]]:
    """Rows of a rollout file without its token lists; raises DataError where it is not one."""
    return records.read_table(path, pa.schema([ROLLOUTS.field(name) for name in COLUMNS])).to_pylist()


def spaced(steps: Iterable[int], count: int) -> list[int]:
    """At most `count` of the steps, evenly spread, the first and the last among them."""
    steps = sorted(set(steps))
    if len(steps) <= count:
        return steps
    return [steps[round(at * (len(steps) - 1) / (count - 1))] for at in range(count)]


def fate(first: Row, last: Row) -> str:
    if last["verdict"] is None:
        return "ungraded"
    before, after = first["verdict"] == "correct", last["verdict"] == "correct"
    return {(False, True): "learned", (True, False): "lost", (True, True): "kept", (False, False): "missed"}[
        before, after
    ]


def stories(rows: Iterable[Row], points: int = 4) -> Stories | None:
    """The first sample of each question at the first and last step decides its fate; of every fate a few, drawn
    at random, are shown, at `points` steps. None where fewer than two steps share a question."""
    at: dict[int, dict[str, Row]] = {}
    for row in rows:
        if row["sample_index"] == 0:
            at.setdefault(row["step"], {})[row["example_id"]] = row
    if len(at) < 2:
        return None
    first, last = min(at), max(at)
    shared = sorted(at[first].keys() & at[last].keys())
    if not shared:
        return None
    by_fate: dict[str, list[str]] = {name: [] for name in FATES}
    for example in shared:
        by_fate[fate(at[first][example], at[last][example])].append(example)
    shown = spaced(at, points)
    chosen = tuple(
        Story(name, example, tuple(at[step][example] for step in shown if example in at[step]))
        for name, examples in by_fate.items()
        for example in drawn(examples, PER_FATE[name], str)
    )
    graded = not by_fate["ungraded"]
    counts = {name: len(examples) for name, examples in by_fate.items() if (name != "ungraded") == graded}
    return Stories(first, last, counts, chosen)


def visible(text: str) -> str:
    """The text with everything a reader would miss: line ends as ↵, tabs as ⇥, spaces before a line end as ·, control,
    invisible and direction-changing characters as escapes."""
    text = re.sub(r" +(?=\n|$)", lambda spaces: "·" * len(spaces[0]), text)
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\n":
        return "↵\n"
    if character == "\t":
        return "⇥"
    return escaped(character)


def shorten(text: str, limit: int, tail: int | None = None) -> str:
    """At most about `limit` characters: the beginning and the end (its last `tail` characters, half by default)."""
    if len(text) <= limit:
        return text
    tail = limit // 2 if tail is None else tail
    left_out = len(text) - limit
    return f"{text[: limit - tail]} […{left_out} characters…] {text[len(text) - tail :] if tail else ''}".rstrip()


def fence(text: str) -> str:
    """A Markdown code block that the text cannot close: its fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{text}\n{ticks}"


def facts(row: Row) -> str:
    """One line about a sample: verdict, length, why it ended, entropy."""
    said = [row["verdict"] or "ungraded", f"{row['num_response_tokens']} tokens", f"ended by {row['finish_reason']}"]
    if row.get("mean_token_entropy") is not None:
        said.append(f"entropy {row['mean_token_entropy']:.2f} nats")
    if row.get("advantage") is not None:
        said.append(f"advantage {row['advantage']:+.2f}")
    return " · ".join(said)


def story_markdown(story: Story) -> str:
    """A question, its reference answer, and what the policy wrote at each step."""
    first = story.samples[0]
    parts = [f"### {story.fate.capitalize()}: `{visible(story.example_id).replace('`', '')}`"]
    parts += [
        f"{FATES[story.fate].capitalize()}.",
        "Prompt, its end:",
        fence(visible(shorten(first["prompt"], 320, 320))),
    ]
    parts += ["Reference answer:", fence(visible(first["ground_truth"]))]
    for row in story.samples:
        parts += [f"**Step {row['step']}** · {facts(row)}", fence(visible(shorten(row["response"], 1200)))]
    return "\n\n".join(parts)


def markdown(name: str, run: str, found: Stories | None, stopped: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Transcripts of the winner's first run, and the last words of runs that did not finish."""
    parts = [f"# {name}: transcripts over training", f"Run `{run}`, validation questions, first sample of each."]
    if found is None:
        parts.append("Fewer than two evaluations share a question, so there is nothing to follow over training.")
    else:
        counted = "; ".join(f"{found.counts[fate]} {fate} ({FATES[fate]})" for fate in found.counts)
        parts.append(f"From step {found.first} to step {found.last}: {counted}.")
        parts += [story_markdown(story) for story in found.chosen]
    for path, rows in stopped:
        parts.append(f"## Last samples of `{path}`, which did not finish")
        for row in rows:
            parts += [f"**Step {row['step']}** · {facts(row)}", fence(visible(shorten(row["response"], 1200)))]
    legend = "↵ line end, ⇥ tab, · space before a line end; other invisible characters as escapes."
    return "\n\n".join([*parts, legend]) + "\n"


def last_words(rows: Sequence[Row], count: int = 2) -> list[Row]:
    """A few samples of the last step, drawn at random."""
    last = max((row["step"] for row in rows), default=0)
    return drawn([row for row in rows if row["step"] == last], count)
