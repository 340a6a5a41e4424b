"""What every training stage does around its own step: resume, validate, checkpoint, write.

A stage gives `train` a function that takes one step and returns its METRICS rows. Everything random is a function of
(seed, step), so the state of a run is weights, moments, and the rows written so far: a run that was killed and went on
equals one that was not, bit for bit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages import console, records
from stages.config import STAGES, Compute, Trained
from stages.early_end import failure
from stages.engines.opening import open_engine
from stages.engines.rollouts import VALIDATION
from stages.examples import first, read_examples
from stages.generations import generations_table
from stages.graded import sample_and_grade
from stages.grading.pool import GraderPool
from stages.measure import validation_metrics
from stages.parts import Parts
from stages.policy.checkpoint import load_training, save_training
from stages.policy.clock import Clock
from stages.policy.loading import load_policy, save_policy
from stages.policy.optimizer import make_optimizer
from stages.store import State, new_directory, provenance, write_json
from stages.strict import ConfigError, parse, read_spec
from stages.wandb_log import open_log

Row = dict[str, Any]


@dataclass(frozen=True)
class Files:
    """Inputs and outputs of a training stage. `rollouts` is None where training samples nothing."""

    spec: Path
    model: Path
    train: Path
    validation: Path
    state: Path
    metrics: Path
    generations: Path
    checkpoint: Path
    status: Path
    winners: Sequence[Path] = ()
    rollouts: Path | None = None


@dataclass
class Run:
    """One training run in progress. `step` counts calls of the stage's step function."""

    name: str
    settings: Any
    total: int
    files: Files
    plan: dict[str, Any]
    state: State
    pool: GraderPool
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

    def __post_init__(self) -> None:
        compute = parse(Compute, self.plan.get("compute", {}), "compute")
        batch_size = self.settings.sampling_batch_size
        self.engine = open_engine(compute, self.files.model, self.model, self.tokenizer, batch_size)
        betas = (self.settings.adam_beta1, self.settings.adam_beta2)
        self.optimizer = make_optimizer(self.model, betas, self.settings.weight_decay)
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
        return sample_and_grade(
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

    def resume(self) -> None:
        """Go on from the newest complete checkpoint, if there is one."""
        step, folder = self.state.newest() or (0, None)
        self.generations.rewind(step)
        self.rollouts.rewind(step)
        if folder:
            facts = load_training(folder, self.model, self.optimizer)
            self.metrics, self.step, self.ended = facts["metrics"], step, facts["ended"]
            self.updates, self.responses, self.total = facts["updates"], facts["responses"], facts["total"]
            self.began = time.monotonic() - facts["seconds"]
            self.engine.sync(self.model)
            console.say(f"{self.name}: going on from step {step} of {self.total}")

    def checkpoint(self) -> None:
        self.generations.flush(self.step)
        self.rollouts.flush(self.step)
        facts = {
            "metrics": self.metrics,
            "updates": self.updates,
            "responses": self.responses,
            "total": self.total,
            "seconds": self.seconds(),
            "ended": self.ended,
        }
        with self.state.save(self.step) as folder:
            save_training(folder, self.model, self.optimizer, facts)

    def validate(self) -> Row:
        """Sample and grade the validation examples; keep the generations, add a METRICS row."""
        clock = Clock()
        rows = self.sample(self.validation, clock, step=self.updates, group_size=1, seed_step=VALIDATION)
        self.generations.fresh += rows
        row = validation_metrics(rows, self.updates, self.seconds())
        row["seconds_validate"] = clock.total()
        self.metrics.append(row)
        console.CONSOLE.print(generations_table(rows, row, f"{self.name}, step {self.updates}"))
        return row

    def finish(self) -> None:
        """Write the declared outputs, the status last, then drop the state."""
        told = provenance({**self.plan, "values": self.settings.model_dump(mode="json")})
        records.write_table(self.files.metrics, records.table(self.metrics, records.METRICS), told)
        records.write_table(self.files.generations, self.generations.all(), told)
        if self.files.rollouts:
            records.write_table(self.files.rollouts, self.rollouts.all(), told)
        with new_directory(self.files.checkpoint) as folder:
            save_policy(self.model, self.tokenizer, folder)
        status = {
            "status": "diverged" if self.ended else "finished",
            "reason": self.ended,
            "steps": self.updates,
            "seconds": round(self.seconds(), 3),
            "values": self.settings.model_dump(mode="json"),
        }
        write_json(self.files.status, status)
        self.state.clear()


@contextmanager
def opened(stage: str, files: Files, total: Callable[[Any, list[Row]], int]) -> Iterator[Run]:
    """Read and check everything a run needs, cheapest first, and hold its state folder while the block runs.

    `total` says, from settings and training examples, how many steps there are.
    """
    plan = read_spec(files.spec)
    settings = resolve(stage, plan, files.winners)
    train = read_examples(files.train, needs_response=stage == "sft", may_be_empty=plan.get("may_be_empty", False))
    train = first(train, getattr(settings, "num_examples", "full"))
    validation = first(read_examples(files.validation), settings.num_validation_examples)
    with State(files.state, {**plan, "values": settings.model_dump(mode="json")}) as state, GraderPool() as pool:
        model, tokenizer = load_policy(files.model)
        yield Run(
            plan["name"],
            settings,
            total(settings, train),
            files,
            plan,
            state,
            pool,
            model,
            tokenizer,
            train,
            validation,
        )


def resolve(stage: str, plan: Row, winners: Sequence[Path]) -> Trained:
    """The values of a run, with those it inherits read from the winners' files."""
    values = dict(plan["values"])
    chosen = {path.stem: json.loads(path.read_text()) for path in winners}
    for key, source in plan.get("inherit", {}).items():
        if source not in chosen or key not in chosen[source]["values"]:
            raise ConfigError(f"{plan['name']}: {key} is inherited from {source}, whose winner does not name it")
        values[key] = chosen[source]["values"][key]
    return parse(STAGES[stage], values, plan["name"])


def train(run: Run, take_step: Callable[[Run], list[Row]]) -> None:
    """Take the steps that are left, validating and checkpointing on the way, then write the outputs."""
    run.resume()
    log = open_log(run.name, run.state.folder, run.settings.model_dump(mode="json"))
    if not run.metrics:
        run.validate()
        log(run.metrics)
    with console.progress(run.name, run.total, done=run.step) as advance:
        while run.step < run.total and not run.ended:
            before = len(run.metrics)
            fresh = take_step(run)
            run.metrics += fresh
            run.step += 1
            run.ended = failure(run.metrics, len(fresh), run.settings.early_end)
            advance(1, _note(fresh[-1]))
            if run.settings.max_seconds is not None and run.seconds() >= run.settings.max_seconds:
                run.total = run.step  # kept in the checkpoint: a run killed after it takes no further step
            last = run.step == run.total or bool(run.ended)
            if last or run.step % run.settings.eval_every == 0:
                run.validate()
            log(run.metrics[before:])
            if last or run.step % run.settings.checkpoint_every == 0:
                run.checkpoint()
    run.finish()


def _note(row: Row) -> str:
    shown = (("loss", "loss"), ("answer_reward", "reward"), ("token_entropy", "entropy"), ("gradient_norm", "|g|"))
    return "  ".join(f"{label} {row[key]:.3f}" for key, label in shown if row.get(key) is not None)
