"""Sample a policy's responses to a dataset; grading is a stage of its own, so regrading samples nothing again.

python -m stages.sample --spec … --model … --data … --state … --rollouts …
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from stages import console, records
from stages.config import Evaluation
from stages.early_end import unsound
from stages.engines.opening import check_engine, open_engine
from stages.examples import batch_of, first, read_examples
from stages.hardware import compute_of, sampling_gpus
from stages.parts import Parts
from stages.store import State, provenance, stamp, write_json
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
    from stages.policy.tokenization import prompt_ids

    began = time.monotonic()
    with State(state, {**plan, "start": stamp(model)}) as held:
        tokenizer = load_tokenizer(model)
        engine = open_engine(compute, model, None, tokenizer, settings.sampling_batch_size)
        parts = Parts(held.folder / "rollouts", records.ROLLOUTS)
        clock = GenerationClock(held.folder / "generating.json")

        def sample_chunk(chunk: list[dict[str, Any]]) -> list[dict[str, Any]]:
            with clock(parts.last()):
                rows = sample_rows(
                    engine,
                    lambda text: prompt_ids(tokenizer, text),
                    chunk,
                    settings,
                    step=0,
                    group_size=settings.group_size,
                    seed_step=plan.get("round", 0),
                    model=settings.model,
                    run=plan["name"],
                    rollout_batch=plan.get("round"),
                )
            if told := unsound(rows):
                raise records.DataError(f"{model}: {told}: it is no policy to sample from; check the run that made it")
            return rows

        size = max(1, settings.sampling_batch_size // settings.group_size)
        found = parts.fill(f"sampling {plan['name']}", examples, size, sample_chunk, settings.group_size)
        spent = {"seconds": time.monotonic() - began, "seconds_generating": clock.total()}
        records.write_table(rollouts, found, provenance(plan) | spent | taken(sampling_gpus(compute)))
        held.clear()


class GenerationClock:
    """Seconds of generating alone, chunk by chunk, kept in a file beside the chunks: an evaluation that was interrupted
    counts those of every attempt, and loading of none."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self.seconds = {str(place): float(took) for place, took in json.loads(file.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):  # not there, or damaged
            self.seconds = {}

    @contextmanager
    def __call__(self, place: int) -> Iterator[None]:
        """The block generates the chunk at `place`; where it was lost and is made again, the last time counts."""
        began = time.monotonic()
        yield
        self.seconds[str(place)] = time.monotonic() - began
        write_json(self.file, self.seconds)

    def total(self) -> float:
        return sum(self.seconds.values())


def chosen(examples: list[dict[str, Any]], count: int | str, number: int | None, seed: int) -> list[dict[str, Any]]:
    """The examples to sample from: the first `count`, or, in round `number` of expert iteration (from 1), the batch
    of that size that is that round's turn in an endless shuffle of all."""
    if number is None or count == "full":
        return first(examples, count)
    return batch_of(examples, min(count, len(examples)), number - 1, seed)


if __name__ == "__main__":
    console.run(app)
