"""Sample a policy's responses to a dataset; grading is a stage of its own, so regrading samples nothing again.

python -m stages.sample --spec … --model … --data … --state … --rollouts …
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from stages import console, records
from stages.config import Evaluation
from stages.engines.opening import check_engine, open_engine
from stages.examples import batch_of, first, read_examples
from stages.hardware import compute_of, sampling_gpus
from stages.parts import Parts
from stages.store import State, provenance, stamp
from stages.strict import parse, read_spec

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    spec: Annotated[Path, typer.Option(exists=True, help="specification of the evaluation")],
    model: Annotated[Path, typer.Option(exists=True, help="Hugging Face folder of the policy")],
    data: Annotated[Path, typer.Option(exists=True, help="EXAMPLES in Parquet")],
    state: Annotated[Path, typer.Option(help="folder for unfinished work")],
    rollouts: Annotated[Path, typer.Option(help="ROLLOUTS to write, rewards empty")],
) -> None:
    """Sample `group_size` responses to each example. What was sampled before an interruption is kept."""
    plan = read_spec(spec)
    settings = parse(Evaluation, plan["values"], f"evaluations.{plan['name']}")
    examples = chosen(read_examples(data), settings.num_examples, plan.get("round"), settings.seed)
    compute = compute_of(plan)
    check_engine(compute, training=False)
    from stages.engines.rollouts import sample_rows
    from stages.policy.loading import load_tokenizer
    from stages.policy.taken import taken

    began = time.monotonic()
    with State(state, {**plan, "start": stamp(model)}) as held:
        tokenizer = load_tokenizer(model)
        engine = open_engine(compute, model, None, tokenizer, settings.sampling_batch_size)
        parts = Parts(held.folder / "rollouts", records.ROLLOUTS)
        parts.fill(
            f"sampling {plan['name']}",
            examples,
            max(1, settings.sampling_batch_size // settings.group_size),
            lambda chunk: sample_rows(
                engine,
                lambda text: tokenizer(text).input_ids,
                chunk,
                settings,
                step=plan.get("round", 0),
                group_size=settings.group_size,
                seed_step=plan.get("round", 0),
                model=settings.model,
                run=plan["name"],
            ),
        )
        spent = {"seconds": time.monotonic() - began, **taken(sampling_gpus(compute))}
        records.write_table(rollouts, parts.all(), provenance(plan) | spent)
        held.clear()


def chosen(examples: list[dict[str, Any]], count: int | str, number: int | None, seed: int) -> list[dict[str, Any]]:
    """The examples to sample from: the first `count`, or, in round `number` of expert iteration (from 1), the batch
    of that size that is that round's turn in an endless shuffle of all."""
    if number is None or count == "full":
        return first(examples, count)
    return batch_of(examples, min(count, len(examples)), number - 1, seed)


if __name__ == "__main__":
    console.run(app)
