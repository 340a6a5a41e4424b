"""What every training stage does around its own step: resume, validate, checkpoint, write.

A stage gives `train` a function that takes one step and returns its METRICS rows. Everything random is a function of
(seed, step), so the state of a run is weights, moments, and the rows written so far: a run that was killed and went on
equals one that was not, bit for bit. Several processes run all of this side by side (policy/processes.py): the first
one alone samples, grades and writes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages import console, records
from stages.config import STAGES, Compute, Trained
from stages.early_end import failure
from stages.engines.opening import check_engine, open_engine
from stages.engines.rollouts import VALIDATION
from stages.examples import first, read_examples
from stages.files import Files
from stages.generations import generations_table
from stages.graded import sample_and_grade
from stages.grading.pool import GraderPool
from stages.hardware import training_gpus
from stages.measure import validation_metrics
from stages.parts import Parts
from stages.policy.checkpoint import load_training, save_training
from stages.policy.clock import Clock
from stages.policy.loading import DTYPES, save_policy
from stages.policy.optimizer import make_optimizer, scheduled, step_optimizer
from stages.policy.processes import joined, leads, share
from stages.policy.taken import taken
from stages.policy.trainable import load_trainable
from stages.store import State, new_directory, provenance, stamp, write_json
from stages.strict import ConfigError, parse, read_spec
from stages.wandb_log import open_log

Row = dict[str, Any]
Measure = Callable[["Run"], tuple[Row, list[Row]]]  # METRICS columns of a validation, and what the policy wrote for it


@dataclass
class Run:
    """One training run in progress. `step` counts calls of the stage's step function."""

    name: str
    settings: Any
    total: int
    files: Files
    plan: dict[str, Any]
    compute: Compute
    state: State
    pool: GraderPool | None
    model: Any
    tokenizer: Any
    train: list[Row]
    validation: list[Row]
    engine: Any = field(init=False)
    optimizer: Any = field(init=False)
    metrics: list[Row] = field(default_factory=list)
    step: int = 0
    updates: int = 0
    responses: int = 0
    ended: str = ""
    began: float = 0.0
    keep_best: str | None = None  # the validation column whose highest value names the weights to keep, not the last

    def __post_init__(self) -> None:
        batch_size = self.settings.sampling_batch_size
        self.engine = open_engine(self.compute, self.files.model, self.model, self.tokenizer, batch_size)
        betas = (self.settings.adam_beta1, self.settings.adam_beta2)
        self.optimizer = make_optimizer(self.model, betas, self.settings.weight_decay, self.settings.optimizer)
        self.generations = Parts(self.state.folder / "generations", records.ROLLOUTS)
        self.rollouts = Parts(self.state.folder / "rollouts", records.ROLLOUTS)
        self.began = time.monotonic()

    def seconds(self) -> float:
        """Wall-clock of the run so far; time between attempts does not count."""
        return time.monotonic() - self.began

    def tokenize(self, text: str) -> list[int]:
        return self.tokenizer(text).input_ids

    def sample(self, examples: list[Row], clock: Clock, *, step: int, group_size: int, seed_step: int) -> list[Row]:
        """Graded rollouts of the current policy."""
        if not leads():
            return share(None)
        rows = sample_and_grade(
            self.engine,
            self.tokenize,
            examples,
            self.settings,
            self.pool,
            step=step,
            group_size=group_size,
            seed_step=seed_step,
            model=self.name,
            run=self.name,
            clock=clock,
        )
        return share(rows)

    def descend(self, num_examples: int) -> Row:
        """Apply the gradient that has been accumulated over so many examples; METRICS columns of the optimiser step."""
        settings = self.settings
        rate = scheduled(self.step, self.total, settings.learning_rate, settings.lr_schedule, settings.warmup_fraction)
        norm = step_optimizer(self.model, self.optimizer, rate, settings.max_grad_norm)
        self.updates += 1
        self.responses += num_examples
        return {
            "step": self.updates,
            "kind": "train",
            "seconds": self.seconds(),
            "num_examples": self.responses,
            "learning_rate": rate,
            "gradient_norm": norm,
        }

    def resume(self) -> None:
        """Go on from the newest complete checkpoint, if there is one."""
        step, folder = (self.state.newest() if leads() else None) or (0, "")
        step, folder = share((step, str(folder)))
        if leads():
            self.generations.rewind(step)
            self.rollouts.rewind(step)
        if folder:
            facts = load_training(Path(folder), self.model, self.optimizer)
            self.metrics, self.step, self.ended = facts["metrics"], step, facts["ended"]
            self.updates, self.responses, self.total = facts["updates"], facts["responses"], facts["total"]
            self.began = time.monotonic() - facts["seconds"]
            self.engine.sync(self.model)
            console.say(f"{self.name}: going on from step {step} of {self.total}")

    def checkpoint(self) -> None:
        for parts in (self.generations, self.rollouts):
            parts.flush(self.step) if leads() else parts.fresh.clear()
        facts = {
            "metrics": self.metrics,
            "updates": self.updates,
            "responses": self.responses,
            "total": self.total,
            "seconds": self.seconds(),
            "ended": self.ended,
        }
        with self.state.save(self.step) if leads() else nullcontext() as folder:
            save_training(folder, self.model, self.optimizer, facts)
        if leads():
            self.forget_worse()

    def validate(self, measure: Measure) -> None:
        """Measure the policy: add a METRICS row, keep what it wrote, and its weights where they are the best so far."""
        clock = Clock()
        columns, rows = measure(self)
        self.generations.fresh += rows
        row = {**columns, "step": self.updates, "kind": "validation", "seconds": self.seconds()}
        row["seconds_validate"] = clock.total()
        self.metrics.append(row)
        console.CONSOLE.print(generations_table(rows, row, f"{self.name}, step {self.updates}"))
        if self.keep_best and best(self.metrics, self.keep_best) == self.updates:
            self.save_model(self._kept(self.updates))

    def save_model(self, target: Path) -> None:
        with new_directory(target) if leads() else nullcontext() as folder:
            save_policy(self.model, self.tokenizer, folder, DTYPES[self.compute.dtype])

    def _kept(self, step: int) -> Path:
        return self.state.folder / f"best_{step:08d}"

    def forget_worse(self) -> None:
        """Once the newest checkpoint knows of better ones, drop earlier weights that were the best of their time."""
        newest = self._kept(best(self.metrics, self.keep_best)) if self.keep_best else None
        for folder in self.state.folder.glob("best_*"):
            if folder != newest:
                shutil.rmtree(folder)

    def finish(self) -> None:
        """Write the declared outputs, the status last, then drop the state."""
        if not self.keep_best:
            self.save_model(self.files.checkpoint)
        if not leads():
            return
        if self.keep_best:
            with new_directory(self.files.checkpoint) as folder:
                shutil.copytree(self._kept(best(self.metrics, self.keep_best)), folder, dirs_exist_ok=True)
        told = provenance({**self.plan, "values": self.settings.model_dump(mode="json")})
        records.write_table(self.files.metrics, records.table(self.metrics, records.METRICS), told)
        records.write_table(self.files.generations, self.generations.all(), told)
        if self.files.rollouts:
            records.write_table(self.files.rollouts, self.rollouts.all(), told)
        status = {
            "status": "diverged" if self.ended else "finished",
            "reason": self.ended,
            "steps": self.updates,
            "seconds": round(self.seconds(), 3),
            **taken(training_gpus(self.compute)),
            "values": self.settings.model_dump(mode="json"),
        }
        write_json(self.files.status, status)
        self.state.clear()


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
    train = first(train, getattr(settings, "num_examples", "full"))
    validation = first(read_examples(files.validation, schema), settings.num_validation_examples)
    compute = parse(Compute, plan.get("compute", {}), "compute")
    check_engine(compute, training=True)
    with joined(compute), ExitStack() as held:
        state, pool = State(files.state, identity(plan, settings, files.model)), None
        if leads():
            held.enter_context(state)
            pool = held.enter_context(GraderPool())
        model, tokenizer = load_trainable(files.model, compute)
        yield Run(
            plan["name"],
            settings,
            total(settings, train),
            files,
            plan,
            compute,
            state,
            pool,
            model,
            tokenizer,
            train,
            validation,
        )


def identity(plan: Row, settings: Trained, model: Path) -> Row:
    """What the state of a run belongs to: everything told about it, its hardware excepted, on which it may change, and
    the very files of the policy that it starts from: another winner, or the same one trained anew, is another start."""
    compute = {key: value for key, value in plan.get("compute", {}).items() if key in ("engine", "dtype")}
    return {**plan, "compute": compute, "values": settings.model_dump(mode="json"), "start": stamp(model)}


def resolve(stage: str, plan: Row, winners: Sequence[Path]) -> Trained:
    """The values of a run, with those it inherits read from the winners' files."""
    values = dict(plan["values"])
    chosen = {path.stem: json.loads(path.read_text()) for path in winners}
    for key, source in plan.get("inherit", {}).items():
        if source not in chosen or key not in chosen[source]["values"]:
            raise ConfigError(f"{plan['name']}: {key} is inherited from {source}, whose winner does not name it")
        values[key] = chosen[source]["values"][key]
    return parse(STAGES[stage], values, plan["name"])


def graded_answers(run: Run) -> tuple[Row, list[Row]]:
    """Sample and grade the validation examples: METRICS columns, and the rows.

    The sampler gets the weights here: stages that sample nothing else need not push them after every step.
    """
    run.engine.sync(run.model)
    rows = run.sample(run.validation, Clock(), step=run.updates, group_size=1, seed_step=VALIDATION)
    return validation_metrics(rows, run.updates, run.seconds()), rows


def best(metrics: Sequence[Row], column: str) -> int:
    """The step of the validation with the highest value, the earliest of several."""
    return max((row for row in metrics if row["kind"] == "validation"), key=lambda row: row[column])["step"]


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
    if not run.metrics:
        run.validate(measure)
        log(run.metrics)
    with console.progress(run.name, run.total, done=run.step) as advance:
        while run.step < run.total and not run.ended:
            before = len(run.metrics)
            fresh = take_step(run)
            run.metrics += fresh
            run.step += 1
            late = run.settings.max_seconds is not None and run.seconds() >= run.settings.max_seconds
            run.ended, late = share((failure(run.metrics, len(fresh), run.settings.early_end), late))
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
