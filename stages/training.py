"""What every training stage does around its own step: open the run, resume, validate, checkpoint, write.

A stage gives `train` a function that takes one step and returns its METRICS rows. A run that was killed and went on
equals one that was not, bit for bit on a CPU (run.py). Several processes run all of this side by side
(policy/processes.py): the first one alone samples, grades and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from stages import console, records
from stages.config import STAGES, Trained
from stages.early_end import failure
from stages.engines.opening import check_engine
from stages.engines.rollouts import VALIDATION
from stages.examples import first, leak, read_examples
from stages.files import Files
from stages.grading.pool import GraderPool
from stages.hardware import compute_of
from stages.measure import validation_metrics
from stages.policy.clock import Clock
from stages.policy.processes import joined, leads, share
from stages.policy.rescoring import score_rollouts
from stages.policy.trainable import load_trainable
from stages.run import Measure, Run
from stages.store import State, stamp
from stages.strict import ConfigError, parse, read_spec
from stages.wandb_log import open_log

Row = dict[str, Any]


@contextmanager
def opened(stage: str, files: Files, total: Callable[[Any, list[Row]], int] = lambda *_: 0) -> Iterator[Run]:
    """Read and check everything a run needs, cheapest first, and hold its state folder while the block runs.

    `total` says, from settings and training examples, how many steps there are; a stage that learns it from the tokens
    sets `run.total` instead.
    """
    plan = read_spec(files.spec)
    settings = resolve(stage, plan, files.winners)
    schema, may_be_empty = records.DATASETS[settings.rows], plan.get("may_be_empty", False)
    train = read_examples(files.train, schema, needs_response=stage == "sft", may_be_empty=may_be_empty)
    train = first(train, getattr(settings, "num_examples", "full"), exactly=True)
    validation = first(read_examples(files.validation, schema), settings.num_validation_examples)
    compute = compute_of(plan)
    check_engine(compute, training=True)
    with joined(compute), ExitStack() as held:
        if told := leak(train, validation):
            console.say(f"warning: {plan['name']}: {told}")
        state = State(files.state, identity(plan, settings, files.model))
        if leads():
            held.enter_context(state)
        pool = held.enter_context(GraderPool()) if leads() else None
        model, tokenizer = load_trainable(files.model, compute)
        yield Run(
            plan=plan,
            settings=settings,
            total=total(settings, train),
            files=files,
            compute=compute,
            state=state,
            pool=pool,
            model=model,
            tokenizer=tokenizer,
            train=train,
            validation=validation,
        )


def identity(plan: Row, settings: Trained, model: Path) -> Row:
    """What the state of a run belongs to: everything told about it, its hardware excepted, on which it may change, and
    the very files of the policy that it starts from: another winner, or the same one trained anew, is another start."""
    compute = {key: value for key, value in plan.get("compute", {}).items() if key in ("engine", "dtype")}
    return {**plan, "compute": compute, "values": settings.model_dump(mode="json"), "start": stamp(model)}


def resolve(stage: str, plan: Row, winners: Sequence[Path]) -> Trained:
    """The values of a run, with those it inherits read from the winners' files."""
    values = dict(plan["values"])
    chosen = {path.stem: read_spec(path) for path in winners}
    for key, source in plan.get("inherit", {}).items():
        if source not in chosen or key not in chosen[source]["values"]:
            raise ConfigError(f"{plan['name']}: {key} is inherited from {source}, whose winner does not name it")
        values[key] = chosen[source]["values"][key]
    return parse(STAGES[stage], values, plan["name"])


def graded_answers(run: Run) -> tuple[Row, list[Row]]:
    """Sample and grade the validation examples: METRICS columns, and the rows.

    The sampler gets the weights here: stages that sample nothing else need not push them after every step. Entropies
    that it cannot tell come from the trainer.
    """
    run.engine.sync(run.model)
    numbers = {"rollout_batch": run.rollout_batches, "seed_step": VALIDATION}
    rows = run.sample(run.validation, Clock(), group_size=1, **numbers)
    score_rollouts(run.model, rows, run.settings)
    return validation_metrics(rows, run.updates, run.seconds()), rows


def train(
    run: Run,
    take_step: Callable[[Run], list[Row]],
    measure: Measure = graded_answers,
    keep_best: str | None = None,
) -> None:
    """Take the steps that are left, validating and checkpointing on the way, then write the outputs.

    `measure` is what a validation does. The checkpoint that comes out is of the last step, or, where `keep_best` names
    a column of METRICS, of the validation that had the highest value there.
    """
    run.keep_best = keep_best
    run.resume()
    log = open_log(run.name, run.state.folder, run.settings.model_dump(mode="json")) if leads() else lambda rows: None
    if not run.metrics and run.plan.get("round", 1) == 1:  # a later round begins where the one before was measured
        run.validate(measure)
        log(run.metrics)
    with console.progress(run.name, run.total, done=run.step) as advance:
        while run.step < run.total and not run.ended:
            before = len(run.metrics)
            fresh = take_step(run)
            run.metrics += fresh
            run.step += 1
            late = run.settings.max_seconds is not None and run.seconds() >= run.settings.max_seconds
            run.ended, late = share((run.ended or failure(run.metrics, len(fresh), run.settings.early_end), late))
            advance(1, _note(fresh[-1]))
            if late:
                run.total = run.step  # kept in the checkpoint: a run killed after it takes no further step
            last = run.step == run.total or bool(run.ended)
            if last or run.step % run.settings.eval_every == 0:
                run.validate(measure)
            log(run.metrics[before:])
            if last or run.step % run.settings.checkpoint_every == 0:
                run.checkpoint()
    run.finish()


def _note(row: Row) -> str:
    shown = (
        ("loss", "loss"),
        ("answer_reward", "reward"),
        ("preference_accuracy", "preferred"),
        ("token_entropy", "entropy"),
        ("gradient_norm", "|g|"),
    )
    return "  ".join(f"{label} {row[key]:.3f}" for key, label in shown if row.get(key) is not None)
