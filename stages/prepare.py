"""Make one dataset of the configuration: generated problems, or rows of a file, as rows in Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stages.benchmarks import AlpacaEval, Mmlu, SimpleSafetyTests
from stages.console import run, say
from stages.origins import ReadSource
from stages.records import DATASETS, table, write_table
from stages.sources import (
    Arithmetic,
    ArithmeticInstructions,
    ArithmeticPreferences,
    ArithmeticTraces,
    Chat,
    Countdown,
    DartMath,
    Gsm8k,
    HhPreferences,
    JsonLines,
    MathStyle,
    Pairs,
    ReasoningGym,
    Tulu3,
    parse_source,
)
from stages.store import provenance
from stages.strict import ConfigError, read_spec
from stages.tasks import (
    alpaca_eval,
    arithmetic,
    arithmetic_alignment,
    chat,
    countdown,
    dart_math,
    gsm8k,
    hh,
    hub,
    jsonl,
    labels,
    math_style,
    mmlu,
    pairs,
    reasoning_gym_tasks,
    simple_safety_tests,
    tulu3,
)
from stages.tasks.files import Reading, counted

Rows = list[dict[str, Any]]
Labels = dict[str, int]  # how many rows were left out, labelled or cut in which way; empty where all came as they are

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _arithmetic(source: Arithmetic, name: str, _: Reading) -> tuple[Rows, Labels]:
    return arithmetic.examples(source.split, source.size, source.seed, name), {}


def _arithmetic_traces(source: ArithmeticTraces, name: str, _: Reading) -> tuple[Rows, Labels]:
    return arithmetic.traces(source.size, source.wrong_fraction, source.seed, name), {}


def _jsonl(source: JsonLines, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return jsonl.load(
        hub.local_files(source), name, source.question, source.answer, source.response, source.rendered, reading
    ), {}


def _gsm8k(source: Gsm8k, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return gsm8k.load(hub.local_files(source), name, source.question_form, reading), {}


def _math(source: MathStyle, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return math_style.load(hub.local_files(source), name, source.levels, source.responses, reading), {}


def _tulu3(source: Tulu3, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return tulu3.load(hub.local_files(source), name, reading)


def _dart_math(source: DartMath, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return dart_math.load(hub.local_files(source), name, reading)


def _countdown(source: Countdown, name: str, reading: Reading) -> tuple[Rows, Labels]:
    if source.path is None and source.hub is None:
        return countdown.generate(source.size, source.seed, source.n_numbers, source.part, name), {}
    return countdown.load(hub.local_files(source), name, source.part, source.size, reading), {}


def _reasoning_gym(source: ReasoningGym, name: str, _: Reading) -> tuple[Rows, Labels]:
    return reasoning_gym_tasks.load(source.dataset, source.split, source.size, source.seed, name), {}


def _arithmetic_instructions(source: ArithmeticInstructions, name: str, _: Reading) -> tuple[Rows, Labels]:
    rows = arithmetic_alignment.instructions(source.split, source.size, source.wrong_fraction, source.seed, name)
    return rows, {}


def _arithmetic_preferences(source: ArithmeticPreferences, name: str, _: Reading) -> tuple[Rows, Labels]:
    return arithmetic_alignment.preferences(source.split, source.size, source.seed, name), {}


def _chat(source: Chat, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return chat.load(
        hub.local_files(source), name, source.prompt, source.response, source.messages, source.context, reading
    )


def _hh(source: HhPreferences, name: str, reading: Reading) -> tuple[Rows, Labels]:
    if source.path is not None:
        files = hh.local_files(Path(source.path), source.subsets, source.split)
    else:
        files = {subset: hub.local_files(source.file_of(subset))[0] for subset in source.subsets}
    return hh.load(files, name, source.part, reading)


def _pairs(source: Pairs, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return pairs.load(hub.local_files(source), name, source.prompt, source.chosen, source.rejected, reading)


def _mmlu(source: Mmlu, name: str, reading: Reading) -> tuple[Rows, Labels]:
    if source.path is None:
        return mmlu.load_rows(hub.local_files(source.files()), name, source.subjects, reading), {}
    path = Path(source.path)
    if path.suffix == ".parquet":
        return mmlu.load_rows([path], name, source.subjects, reading), {}
    return mmlu.load_folder(path, name, source.split, source.subjects), {}


def _alpaca_eval(source: AlpacaEval, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return alpaca_eval.load(hub.local_files(source), name, reading), {}


def _simple_safety_tests(source: SimpleSafetyTests, name: str, reading: Reading) -> tuple[Rows, Labels]:
    return simple_safety_tests.load(hub.local_files(source), name, reading), {}


LOADERS: dict[str, Callable[[Any, str, Reading], tuple[Rows, Labels]]] = {
    "arithmetic": _arithmetic,
    "arithmetic_traces": _arithmetic_traces,
    "jsonl": _jsonl,
    "gsm8k": _gsm8k,
    "math": _math,
    "tulu3": _tulu3,
    "dart_math": _dart_math,
    "countdown": _countdown,
    "reasoning_gym": _reasoning_gym,
    "arithmetic_instructions": _arithmetic_instructions,
    "arithmetic_preferences": _arithmetic_preferences,
    "chat": _chat,
    "hh": _hh,
    "pairs": _pairs,
    "mmlu": _mmlu,
    "alpaca_eval": _alpaca_eval,
    "simple_safety_tests": _simple_safety_tests,
}
# In words what was found; of sources that are not named here, labels.
TOLD: dict[str, Callable[[Labels], str]] = {"chat": chat.told, "hh": pairs.told, "pairs": pairs.told}


@app.command()
def prepare(
    spec: Annotated[Path, typer.Option(help="spec.json of the dataset; its values are an entry of `data`")],
    out: Annotated[Path, typer.Option(help="Parquet file to write")],
) -> None:
    """Make one dataset: generated problems, rows of a published dataset, or your own.

    Where rows were left out or short labels had to be found in long solutions, the metadata of the file counts how and
    why.
    """
    planned = read_spec(spec)
    name = planned["name"]
    source = parse_source(planned["values"], f"data.{name}")
    if source.source not in LOADERS:
        raise ConfigError(f"data.{name}: source {source.source!r} is made by stages.curate, not by stages.prepare")
    reading = Reading(source.max_left_out, source.max_bytes) if isinstance(source, ReadSource) else Reading()
    try:
        rows, found = LOADERS[source.source](source, name, reading)
    except arithmetic.TooMany as error:
        raise ConfigError(f"data.{name}.size: {error}") from None
    facts = {"labels": found, "left_out": dict(reading.left_out)}
    kept = provenance(planned) | {key: counts for key, counts in facts.items() if counts}
    write_table(out, table(rows, DATASETS[source.rows]), kept)
    if found:
        say(f"{name}: {TOLD.get(source.source, labels.told)(found)}")
    if reading.left_out:
        say(f"{name}: left out, as rows that cannot be used: {counted(reading.left_out)}; first: {reading.first}")
    say(f"{name}: {len(rows)} examples -> {out}")


if __name__ == "__main__":
    run(app)
