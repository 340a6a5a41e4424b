"""The rows that stages hand to each other: Arrow schemas with a meaning and a unit for every column."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stages.store import new_file

SCHEMA_VERSION = 2


class DataError(ValueError):
    """A file that cannot be used. The message names it and says what to do."""


def _column(name: str, kind: pa.DataType, meaning: str, unit: str = "", required: bool = False) -> pa.Field:
    metadata = {"meaning": meaning} | ({"unit": unit} if unit else {})
    return pa.field(name, kind, nullable=not required, metadata=metadata)


_TEXT, _INT, _FLOAT = pa.string(), pa.int32(), pa.float64()

# What a run samples to train on comes in rollout batches, and each is trained on by one optimiser step (on-policy) or
# several. `step` and `rollout_batch` count the two wherever they stand; a step's METRICS row has the `rollout_batch` of
# its responses in ROLLOUTS, and a validation's row both numbers of its own.
ROLLOUT_BATCH = (
    "in training, the batch that was sampled or is trained on, from 1; in a validation, batches trained on before; "
    "rounds of expert iteration are its batches; null where a run samples nothing to train on"
)

EXAMPLES = pa.schema(
    [
        _column("example_id", _TEXT, "stable name of the example, unique in its file", required=True),
        _column("question", _TEXT, "the bare question, before any prompt", required=True),
        _column("ground_truth", _TEXT, "the short reference answer", required=True),
        _column("response", _TEXT, "a worked response in r1_zero form, for fine-tuning; null elsewhere"),
    ]
)

INSTRUCTIONS = pa.schema(
    [
        _column("example_id", _TEXT, "stable name of the example, unique in its file", required=True),
        _column("prompt", _TEXT, "the instruction, before any template", required=True),
        _column("response", _TEXT, "what follows it", required=True),
    ]
)

PREFERENCES = pa.schema(
    [
        _column("example_id", _TEXT, "stable name of the pair, unique in its file", required=True),
        _column("prompt", _TEXT, "the instruction, before any template", required=True),
        _column("chosen", _TEXT, "the response that was preferred", required=True),
        _column("rejected", _TEXT, "the other one", required=True),
        _column("category", _TEXT, "the part of the data that the pair is of"),
    ]
)

DATASETS = {"questions": EXAMPLES, "instructions": INSTRUCTIONS, "preferences": PREFERENCES}  # by what they hold

ROLLOUTS = pa.schema(
    [
        _column("example_id", _TEXT, "example of the dataset", required=True),
        _column(
            "step",
            _INT,
            "optimiser steps that the run had taken when its policy sampled this; 0 where a finished policy is sampled "
            "by itself: evaluations, and the rounds of expert iteration",
            "optimiser steps",
            True,
        ),
        _column("rollout_batch", _INT, ROLLOUT_BATCH, "rollout batches"),
        _column("sample_index", _INT, "which sample of the example in its batch, from 0", required=True),
        _column("prompt", _TEXT, "the rendered prompt", required=True),
        _column("response", _TEXT, "the sampled text, stop string included", required=True),
        _column("prompt_token_ids", pa.list_(_INT), "what the sampler read", required=True),
        _column(
            "response_token_ids",
            pa.list_(_INT),
            "what the sampler emitted, end token included",
            required=True,
        ),
        _column("sampler_log_probs", pa.list_(pa.float32()), "log-prob of each emitted token", "nats", True),
        _column("finish_reason", _TEXT, "stop, length or eos", required=True),
        _column("ground_truth", _TEXT, "the short reference answer", required=True),
        _column("format_reward", _FLOAT, "1 where the answer could be found"),
        _column("answer_reward", _FLOAT, "1 where the answer is right"),
        _column("reward", _FLOAT, "what training sees"),
        _column("verdict", _TEXT, "correct, wrong, unformatted, timeout, too_long or bad_reference"),
        _column("advantage", _FLOAT, "group-normalised reward; null outside GRPO and where it was sampled alone"),
        _column(
            "old_log_probs",
            pa.list_(pa.float32()),
            "trainer log-probs at rollout time; off-policy only",
            "nats",
        ),
        _column(
            "mean_token_entropy",
            _FLOAT,
            "mean entropy of the next-token distribution; null in evaluations whose sampler cannot tell it",
            "nats",
        ),
        _column("num_response_tokens", _INT, "end token included", "tokens", True),
        _column("seed", pa.int64(), "seed of the run", required=True),
        _column("model", _TEXT, "policy that sampled", required=True),
        _column("run", _TEXT, "run or evaluation this belongs to", required=True),
    ]
)

# Populations that several columns of METRICS are of.
SAMPLED = "; train: over all that was sampled for the rollout batch"
SIGNALLED = ", over the step's response tokens whose advantage (raw reward without a baseline) is not 0"

METRICS = pa.schema(
    [
        _column("step", _INT, "optimiser steps taken", "optimiser steps", True),
        _column("rollout_batch", _INT, ROLLOUT_BATCH, "rollout batches"),
        _column("kind", _TEXT, "train: one optimiser step; validation: one evaluation", required=True),
        _column("seconds", _FLOAT, "wall-clock since the run began, pauses between attempts left out", "s", True),
        _column("round", _INT, "round of expert iteration, from 1; null elsewhere"),
        _column("num_examples", pa.int64(), "train: responses trained on so far; validation: examples", "examples"),
        _column(
            "num_tokens",
            pa.int64(),
            "response tokens: those sampled, for a rollout batch or a validation; else those trained on",
            "tokens",
        ),
        _column("learning_rate", _FLOAT, "in force for this step"),
        _column("loss", _FLOAT, "what was differentiated; not a measure of progress in policy gradient", "nats"),
        _column("gradient_norm", _FLOAT, "before clipping"),
        _column(
            "skipped",
            _INT,
            "1 where no response of the optimiser batch had a signal: weights and moments stayed, the step counts",
        ),
        _column("token_entropy", _FLOAT, f"mean over the tokens that the policy sampled{SAMPLED}", "nats"),
        _column("target_entropy", _FLOAT, "the policy's, mean over the tokens of the responses it imitates", "nats"),
        _column("clip_fraction", _FLOAT, "share of all the step's response tokens whose loss clipping changed"),
        _column("ratio_mean", _FLOAT, f"mean importance ratio{SIGNALLED}; off-policy only"),
        _column("ratio_max", _FLOAT, f"largest importance ratio{SIGNALLED}; off-policy only"),
        _column("perplexity", _FLOAT, "exp of the loss; validation of instruction tuning only"),
        _column("preference_accuracy", _FLOAT, "share of pairs whose implicit reward margin is above 0; ties half"),
        _column("ranking_accuracy", _FLOAT, "share of pairs whose chosen response has the higher log-prob; ties half"),
        _column("reward_margin", _FLOAT, "mean implicit reward of chosen minus rejected (DPO)", "nats"),
        _column("chosen_log_prob", _FLOAT, "mean log-prob of the chosen response, from where the two part", "nats"),
        _column("rejected_log_prob", _FLOAT, "mean log-prob of the rejected response, from where they part", "nats"),
        _column("reward", _FLOAT, f"mean total reward{SAMPLED}"),
        _column("format_reward", _FLOAT, f"mean{SAMPLED}"),
        _column("answer_reward", _FLOAT, f"mean{SAMPLED}"),
        _column("format1_answer1", pa.int64(), "well-formed and right", "responses"),
        _column("format1_answer0", pa.int64(), "well-formed and wrong", "responses"),
        _column("format0_answer0", pa.int64(), "no answer found", "responses"),
        _column("ungraded", pa.int64(), "timeout, too_long or bad_reference; counted as wrong", "responses"),
        _column("zero_variance_groups", _FLOAT, f"share of groups whose rewards are all equal{SAMPLED}"),
        _column("kept", _FLOAT, "share of the rollout batch's samples that it trains on; below 1 in dynamic sampling"),
        _column("kept_reward", _FLOAT, "mean total reward of those"),
        _column("advantage_magnitude", _FLOAT, "mean absolute advantage of those"),
        _column("length", _FLOAT, f"mean response length{SAMPLED}", "tokens"),
        _column("target_length", _FLOAT, "mean length of the responses it imitates", "tokens"),
        _column("length_correct", _FLOAT, "mean over right responses", "tokens"),
        _column("length_incorrect", _FLOAT, "mean over the others", "tokens"),
        _column("truncated", _FLOAT, "share of responses that hit the token limit"),
        _column("sampler_gap", _FLOAT, f"mean |trainer - sampler| log-prob{SIGNALLED}", "nats"),
        _column(
            "sampler_weight",
            _FLOAT,
            f"mean truncated importance weight, trainer over sampler{SIGNALLED}; where corrected",
        ),
        _column("sampler_capped", _FLOAT, f"share whose importance weight was cut{SIGNALLED}; where corrected"),
        _column("seconds_sample", _FLOAT, "spent sampling", "s"),
        _column("seconds_grade", _FLOAT, "spent waiting for the grader", "s"),
        _column("seconds_score", _FLOAT, "spent on old log-probs", "s"),
        _column("seconds_train", _FLOAT, "spent in forward, backward and update", "s"),
        _column("seconds_sync", _FLOAT, "spent pushing weights to the sampler", "s"),
        _column("seconds_validate", _FLOAT, "spent validating", "s"),
        _column("tokens_per_second", _FLOAT, "response tokens sampled per second of the whole step", "tokens/s"),
        _column(
            "examples_per_second",
            _FLOAT,
            "examples per second of sampling, loading left out; evaluations only",
            "examples/s",
        ),
    ]
)

JUDGEMENTS = pa.schema(
    [
        _column("example_id", _TEXT, "example of the dataset", required=True),
        _column("sample_index", _INT, "which of the group's samples", required=True),
        _column("instruction", _TEXT, "what the response answers", required=True),
        _column("response", _TEXT, "the response as judged: without stop string and fence", required=True),
        _column("baseline", _TEXT, "what it was compared with; null where it was judged by itself"),
        _column("category", _TEXT, "the part of the benchmark that the instruction is of; null where there are none"),
        _column("order", _INT, "1: the response stood first; 2: the baseline did; null where there is none"),
        _column("prompt", _TEXT, "what the judge was asked, before its chat template", required=True),
        _column("text", _TEXT, "what the judge wrote", required=True),
        _column("finish_reason", _TEXT, "stop, length or eos", required=True),
        _column("verdict", _TEXT, "response, baseline, safe, unsafe or unparsed", required=True),
    ]
)

JUDGED = pa.schema(
    [
        _column("prompt", _TEXT, "how it was judged: alpaca_eval or simple_safety_tests", required=True),
        _column("num_examples", pa.int64(), "responses judged", "responses", True),
        _column("num_decided", pa.int64(), "those whose verdicts can all be read", "responses", True),
        _column("score", _FLOAT, "win rate over both orders, or share safe, of those decided; null where none is"),
        _column("low", _FLOAT, "lower end of the score's 95 % interval", required=True),
        _column("high", _FLOAT, "upper end", required=True),
        _column("agreement", _FLOAT, "share of those decided whose two orders name the same response"),
        _column("num_verdicts", pa.int64(), "verdicts asked for", "verdicts", True),
        _column("unparsed", _FLOAT, "share of verdicts that cannot be read", required=True),
        _column("length", _FLOAT, "mean response length", "characters"),
        _column("baseline_length", _FLOAT, "mean length of what it was compared with", "characters"),
        _column("seconds", _FLOAT, "spent judging, in the last attempt", "s", True),
    ]
)

TIMINGS = [field.name for field in METRICS if field.metadata[b"meaning"].startswith(b"spent")]
TIMINGS += ["seconds", "tokens_per_second", "examples_per_second"]


def table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of `schema`. A key the schema does not declare is an error, an absent one is null."""
    rows = list(rows)
    unknown = {key for row in rows for key in row} - set(schema.names)
    if unknown:
        raise DataError(f"undeclared columns {sorted(unknown)}; declare them in stages/records.py")
    built = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    for field in schema:
        if not field.nullable and built[field.name].null_count:
            raise DataError(f"column {field.name!r} must not be empty ({field.metadata[b'meaning'].decode()})")
    return built


def write_table(path: Path, data: pa.Table, provenance: Mapping[str, Any] | None = None) -> None:
    """Write Parquet (zstd) by rename, so that a reader sees the whole file or none; `provenance` goes to metadata."""
    facts = json.dumps({"schema_version": SCHEMA_VERSION, **(provenance or {})}, sort_keys=True).encode()
    data = data.replace_schema_metadata({b"ladder": facts, b"sha256": _seal(facts, data.num_rows)})
    with new_file(path) as file:
        pq.write_table(data, file, compression="zstd", write_page_checksum=True)


def _seal(facts: bytes, rows: int) -> bytes:
    """What shows damage to a file's own facts. Its rows have a checksum in every page."""
    return hashlib.sha256(b"%d " % rows + facts).hexdigest().encode()


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """A file written by `write_table`, checked against `schema`; raises DataError naming file and column, also where
    the file is not as it was written."""
    with _readable(path):
        there = set(_checked(path).schema.to_arrow_schema().names)
        for field in schema:
            if field.name not in there:
                raise DataError(f"{path}: column {field.name!r} is missing ({field.metadata[b'meaning'].decode()})")
        return pq.read_table(path, columns=schema.names, page_checksum_verification=True).cast(schema)


def count_rows(path: Path) -> int:
    """How many rows a file of any schema has; raises DataError naming it."""
    with _readable(path):
        return _checked(path).num_rows


def provenance_of(path: Path) -> dict[str, Any]:
    """What `write_table` recorded beside the data: specification hash, code fingerprint, versions, commit; raises
    DataError naming the file."""
    with _readable(path):
        return json.loads((_checked(path).metadata or {}).get(b"ladder", b"{}"))


def _checked(path: Path) -> pq.FileMetaData:
    """What a file says of itself; raises ArrowInvalid where `write_table` wrote something else."""
    found = pq.read_metadata(path)
    told = found.metadata or {}
    sealed = _seal(told.get(b"ladder", b""), found.num_rows) == told.get(b"sha256")
    if not sealed and (b"ladder" in told or b"sha256" in told):
        raise pa.ArrowInvalid("it is not as it was written, by its SHA-256")
    return found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What goes wrong with the file while the block reads it, as a DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # a damaged footer is refused in many ways
        if Path(path).is_dir():
            raise DataError(f"{path}: a folder; name a Parquet file") from None
        told = f"{path}: not a readable Parquet file ({error!s:.200})"
        raise DataError(f"{told}; if the workflow wrote it, delete it and run again") from None
