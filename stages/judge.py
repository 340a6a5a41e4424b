"""Let a judge decide about the responses of an evaluation: preferred to a baseline, or safe.

python -m stages.judge --spec … --rollouts … --data … --state … --verdicts … --metrics …
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stages import console, records
from stages.early_end import unsound
from stages.engines.opening import check_engine, open_engine
from stages.engines.protocol import Engine, Request, sample_seed, sampling_of
from stages.examples import read_examples
from stages.hardware import compute_of, sampling_gpus
from stages.judges import Judging
from stages.judging.asking import ORDERS, Tokenizer, answer_of, question, tokens_of
from stages.judging.verdicts import MEASURES, judged_metrics, verdict_of
from stages.parts import Parts
from stages.store import State, digest, provenance, stamp
from stages.strict import parse, read_spec

Row = dict[str, Any]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    spec: Annotated[Path, typer.Option(exists=True, help="specification: a judge and an evaluation")],
    rollouts: Annotated[Path, typer.Option(exists=True, help="ROLLOUTS to judge, graded or not")],
    data: Annotated[Path, typer.Option(exists=True, help="EXAMPLES that they answer")],
    state: Annotated[Path, typer.Option(help="folder for unfinished work")],
    verdicts: Annotated[Path, typer.Option(help="JUDGEMENTS to write, one row for each verdict")],
    metrics: Annotated[Path, typer.Option(help="one JUDGED row to write")],
) -> None:
    """Judge every response, against a baseline in both orders. Verdicts from before an interruption are kept."""
    plan = read_spec(spec)
    settings = parse(Judging, plan["values"], f"judges.{plan['name']}")
    cases = cases_of(plan, settings.prompt, read_rollouts(rollouts), read_examples(data))
    compute = compute_of(plan)
    check_engine(compute, training=False)
    from stages.policy.fetching import local_folder
    from stages.policy.loading import load_tokenizer
    from stages.policy.taken import taken

    began, folder = time.monotonic(), local_folder(settings.model)
    with State(state, {**plan, "start": stamp(folder), "cases": digest(cases)}) as held:
        tokenizer = load_tokenizer(folder)
        engine = open_engine(compute, folder, None, tokenizer, settings.sampling_batch_size)
        parts = Parts(held.folder / "verdicts", records.JUDGEMENTS)
        found = parts.fill(
            f"judging {plan['name']}",
            cases,
            settings.sampling_batch_size,
            lambda chunk: judge_rows(engine, tokenizer, chunk, settings),
        )
        spent = {"seconds": time.monotonic() - began, **taken(sampling_gpus(compute))}
        counts = judged_metrics(settings.prompt, found.to_pylist()) | {"seconds": spent["seconds"]}
        records.write_table(verdicts, found, provenance(plan) | spent)
        records.write_table(metrics, records.table([counts], records.JUDGED), provenance(plan) | spent)
        held.clear()
    console.say(summary(plan["name"], counts))


def read_rollouts(path: Path) -> list[Row]:
    rows = records.read_table(path, records.ROLLOUTS).to_pylist()
    if not rows:
        raise records.DataError(f"{path}: no rollouts in it; delete it and sample again")
    return rows


def cases_of(plan: Row, prompt: str, rollouts: list[Row], examples: list[Row]) -> list[Row]:
    """What is to be decided, in file order: each response, against a baseline once in each order.

    The plan says which strings may have ended a response (`stop`), and whether ground truths name the part of the
    benchmark (`categories`). Raises DataError where a response answers none of the examples.
    """
    by_id = {example["example_id"]: example for example in examples}
    cases = []
    for row in rollouts:
        example = by_id.get(row["example_id"])
        if example is None:
            raise records.DataError(
                f"a response answers {row['example_id']}, which is not in the dataset; sample again"
            )
        for order in ORDERS[prompt]:
            cases.append(
                {
                    "example_id": row["example_id"],
                    "sample_index": row["sample_index"],
                    "instruction": example["question"],
                    "response": answer_of(row["response"], plan["stop"]),
                    "baseline": None if order is None else example["ground_truth"],
                    "category": example["ground_truth"] if plan["categories"] else None,
                    "order": order,
                }
            )
    return cases


def judge_rows(engine: Engine, tokenizer: Tokenizer, cases: Sequence[Row], settings: Judging) -> list[Row]:
    """JUDGEMENTS rows, one for each case in turn."""
    asked = [
        question(settings.prompt, case["instruction"], case["response"], case["baseline"], case["order"])
        for case in cases
    ]
    requests = [
        Request(
            tokens_of(tokenizer, text),
            [sample_seed(settings.seed, case["order"] or 0, *_place(case))],
            f"the judge's prompt about example {case['example_id']}",
        )
        for text, case in zip(asked, cases, strict=True)
    ]
    answers = engine.generate(requests, sampling_of(settings))
    rows = []
    for case, text, (said,) in zip(cases, asked, answers, strict=True):
        found = {"sampler_log_probs": said.log_probs, "mean_token_entropy": said.mean_entropy}
        if told := unsound([found | {"example_id": case["example_id"]}]):
            raise records.DataError(f"{settings.model}: {told}: it is no judge; check its weights")
        verdict = verdict_of(settings.prompt, case["order"], said.text, said.finish_reason)
        rows.append(case | {"prompt": text, "text": said.text, "finish_reason": said.finish_reason, "verdict": verdict})
    return rows


def _place(case: Row) -> tuple[str, int]:
    return case["example_id"], case["sample_index"]


def summary(name: str, counts: Row) -> str:
    score = (
        "none" if counts["score"] is None else f"{counts['score']:.1%} ({counts['low']:.1%} to {counts['high']:.1%})"
    )
    return (
        f"{name}: {MEASURES[counts['prompt']]} {score} "
        f"of {counts['num_decided']} of {counts['num_examples']} responses; "
        f"{counts['unparsed']:.1%} of {counts['num_verdicts']} verdicts unparsed"
    )


if __name__ == "__main__":
    console.run(app)
