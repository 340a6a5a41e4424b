"""One training run in progress: what it holds, what it can do, and what of it is kept from one attempt to the next.

The state of a run is weights, moments, and the rows written so far: everything random is a function of (seed, step).
"""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import console, records, sums
from stages.early_end import not_finite, unsound
from stages.engines.opening import open_engine
from stages.files import Files
from stages.generations import generations_table
from stages.graded import sample_and_grade
from stages.grading.pool import GraderPool
from stages.hardware import Compute, training_gpus
from stages.parts import Parts
from stages.policy.checkpoint import load_training, save_training
from stages.policy.clock import Clock
from stages.policy.limits import positions
from stages.policy.loading import DTYPES, save_policy
from stages.policy.optimizer import make_optimizer, scheduled, step_optimizer
from stages.policy.processes import leads, share
from stages.policy.taken import taken
from stages.policy.tokenization import prompt_ids
from stages.store import State, new_directory, provenance, write_json

Row = dict[str, Any]
Measure = Callable[["Run"], tuple[Row, list[Row]]]  # METRICS columns of a validation, and what the policy wrote for it
PARTS = ("generations", "rollouts")  # of a run's rows, those that are written as it goes


@dataclass
class Run:
    """One training run in progress.

    `step` counts calls of the stage's step function (of GRPO: rollout batches), `updates` optimiser steps, which
    METRICS and ROLLOUTS name `step`, `responses` what they trained on.
    `ended` says why the run has failed, where it has. `keep_best` names the METRICS column of validations whose highest
    value tells which weights to keep; None keeps the last.
    """

    plan: Row
    settings: Any
    total: int
    files: Files
    compute: Compute
    state: State
    pool: GraderPool | None
    model: Any
    tokenizer: Any
    train: list[Row]
    validation: list[Row]
    engine: Any = field(init=False)
    optimizer: Any = field(init=False)
    generations: Parts = field(init=False)
    rollouts: Parts = field(init=False)
    began: float = field(init=False)
    metrics: list[Row] = field(default_factory=list)
    step: int = 0
    updates: int = 0
    responses: int = 0
    ended: str = ""
    keep_best: str | None = None

    def __post_init__(self) -> None:
        batch_size = self.settings.sampling_batch_size
        self.engine = open_engine(self.compute, self.files.model, self.model, self.tokenizer, batch_size)
        betas = (self.settings.adam_beta1, self.settings.adam_beta2)
        self.optimizer = make_optimizer(self.model, betas, self.settings.weight_decay, self.settings.optimizer)
        self.generations = Parts(self.state.folder / "generations", records.ROLLOUTS)
        self.rollouts = Parts(self.state.folder / "rollouts", records.ROLLOUTS)
        self.began = time.monotonic()

    @property
    def name(self) -> str:
        return self.plan["name"]

    @property
    def positions(self) -> float:
        """How many tokens of one document the policy was made for; no bound where its config names none."""
        return positions(self.model) or math.inf

    @property
    def rollout_batches(self) -> int | None:
        """How many rollout batches it has trained on; None in stages that sample nothing to train on."""
        return self.step if self.files.rollouts else None

    def seconds(self) -> float:
        """Wall-clock of the run so far; time between attempts does not count."""
        return time.monotonic() - self.began

    def tokenize(self, text: str) -> list[int]:
        return prompt_ids(self.tokenizer, text)

    def sample(
        self, examples: list[Row], clock: Clock, *, rollout_batch: int | None, group_size: int, seed_step: int
    ) -> list[Row]:
        """Graded rollouts of the current policy."""
        if not leads():
            return share(None)
        rows = sample_and_grade(
            self.engine,
            self.tokenize,
            examples,
            self.settings,
            self.pool,
            step=self.updates,
            group_size=group_size,
            seed_step=seed_step,
            model=self.name,
            run=self.name,
            clock=clock,
            rollout_batch=rollout_batch,
        )
        rows = share(rows)
        self.ended = self.ended or unsound(rows)
        return rows

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
        """Go on from the newest complete checkpoint, if there is one. Raises DataError, before anything is trained,
        where what it keeps is not all there as it was written."""
        step, folder = (self.state.newest() if leads() else None) or (0, "")
        step, folder = share((step, str(folder)))
        facts = load_training(Path(folder), self.model, self.optimizer) if folder else {"parts": {}}
        if leads():
            advice = f"delete the state folder {self.state.folder} and run again: its {step} steps are then lost"
            for name in PARTS:
                getattr(self, name).restore(facts["parts"].get(name, {}), advice)
        if folder:
            self.metrics, self.step, self.ended = facts["metrics"], step, facts["ended"]
            self.updates, self.responses, self.total = facts["updates"], facts["responses"], facts["total"]
            self.began = time.monotonic() - facts["seconds"]
            self.engine.sync(self.model)
            console.say(f"{self.name}: going on from step {step} of {self.total}")

    def checkpoint(self) -> None:
        for parts in (getattr(self, name) for name in PARTS):
            parts.flush(self.step) if leads() else parts.fresh.clear()
        facts = {
            "parts": {name: getattr(self, name).manifest for name in PARTS},
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
        row = {**columns, "step": self.updates, "rollout_batch": self.rollout_batches}
        row |= {"kind": "validation", "seconds": self.seconds()}
        row["seconds_validate"] = clock.total()
        self.metrics.append(row)
        self.ended = self.ended or not_finite(row)
        console.CONSOLE.print(generations_table(rows, row, f"{self.name}, step {self.updates}"))
        if self.keep_best and best(self.metrics, self.keep_best) == self.updates:
            self.save_model(self._kept(self.updates))

    def save_model(self, target: Path) -> None:
        with new_directory(target) if leads() else nullcontext() as folder:
            save_policy(self.model, self.tokenizer, folder, DTYPES[self.compute.dtype])
            if folder:
                sums.seal(folder)

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
            kept = self._kept(best(self.metrics, self.keep_best))
            sums.check(kept, f"delete the state folder {self.state.folder} and run again", required=True)
            with new_directory(self.files.checkpoint) as folder:
                shutil.copytree(kept, folder, dirs_exist_ok=True)
        values = self.settings.model_dump(mode="json")
        told = provenance({**self.plan, "values": values})
        generations, rollouts = self.generations.all(), self.rollouts.all()
        self.refuse_incomplete(generations, rollouts)
        records.write_table(self.files.metrics, records.table(self.metrics, records.METRICS), told)
        records.write_table(self.files.generations, generations, told)
        if self.files.rollouts:
            records.write_table(self.files.rollouts, rollouts, told)
        status = {
            "status": "diverged" if self.ended else "finished",
            "reason": self.ended,
            "steps": self.updates,
            "steps_skipped": sum(row.get("skipped") or 0 for row in self.metrics),
            "seconds": round(self.seconds(), 3),
            **taken(training_gpus(self.compute)),
            "values": values,
        }
        write_json(self.files.status, status)
        self.state.clear()

    def refuse_incomplete(self, generations: pa.Table, rollouts: pa.Table) -> None:
        """Raise DataError unless there are rows of every validation, of each as many, and of every rollout batch,
        questions x group_size in each round of sampling."""
        written = Counter(generations["step"].to_pylist())
        validations = Counter(row["step"] for row in self.metrics if row["kind"] == "validation")
        each = {step: written[step] / count for step, count in validations.items()}
        lacks = [f"the validation of step {step}" for step, rows in each.items() if rows != max(each.values())]
        if self.files.rollouts:
            sampled, size = Counter(rollouts["rollout_batch"].to_pylist()), self.settings.rollout_batch_size
            whole = range(size, size * self.settings.max_sampling_rounds + 1, size)
            lacks += [f"rollout batch {batch}" for batch in range(1, self.step + 1) if sampled[batch] not in whole]
        if lacks:
            raise records.DataError(
                f"{self.name}: rows of {lacks[0]} are missing ({len(lacks)} such); delete the state folder "
                f"{self.state.folder} and run again"
            )


def best(metrics: Sequence[Row], column: str) -> int:
    """The step of the validation with the highest value, the earliest of several; one that is no number is lowest."""
    rows = [row for row in metrics if row["kind"] == "validation"]
    return max(rows, key=lambda row: row[column] if math.isfinite(row[column]) else -math.inf)["step"]
