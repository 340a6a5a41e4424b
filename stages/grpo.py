"""Group Relative Policy Optimisation (Algorithm 3 of the assignment; DeepSeekMath, arXiv 2402.03300).

python -m stages.grpo --spec … --model … --train … --validation … --state … --metrics … --rollouts … …
"""

from __future__ import annotations

from typing import Any

import typer

from stages import console
from stages.files import Files, command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Row = dict[str, Any]


@command(app, rollouts=True)
def main(files: Files) -> None:
    """Train a policy by GRPO against the grader's rewards, validating as it goes; every rollout is kept."""
    from stages import training

    with training.opened("grpo", files, lambda settings, _: settings.n_grpo_steps) as run:
        training.train(run, grpo_step)


def grpo_step(run: Any) -> list[Row]:
    """One pass of Algorithm 3's outer loop: sample G responses per question, reward, normalise, update.

    Returns one METRICS row per optimiser step; what describes the rollout batch is the same in each of them.
    """
    from stages.policy.clock import Clock
    from stages.policy.rescoring import score_rollouts
    from stages.policy.update import needs_old_log_probs, update

    settings, clock = run.settings, Clock()
    rows, spare = collect(run, clock)
    with clock("score"):
        score_rollouts(run.model, rows, settings, old=needs_old_log_probs(settings))
        score_rollouts(run.model, spare, settings)
    facts = rollout_metrics(rows, spare, settings.group_size) | {"kind": "train", "rollout_batch": run.step + 1}
    metrics = []
    for index in range(settings.n_train_steps_per_rollout_batch):
        with clock("train"):
            row = update(run.model, run.optimizer, train_batch(rows, settings, run.step, index), settings, run.step)
        run.updates += 1
        run.responses += settings.train_batch_size
        metrics.append(facts | row | {"step": run.updates, "num_examples": run.responses})
        metrics[-1]["seconds"] = run.seconds()
    with clock("sync"):
        run.engine.sync(run.model)
    run.rollouts.fresh += rows + spare
    metrics[-1] |= clock.columns() | {"tokens_per_second": facts["num_tokens"] / clock.total()}
    return metrics


def collect(run: Any, clock: Any) -> tuple[list[Row], list[Row]]:
    """The rollout batch of this step, with advantages, and rows sampled but not trained on.

    With `max_sampling_rounds` above 1 (dynamic sampling; DAPO, arXiv 2503.14476, section 3.2) further questions, those
    that would come after the run's last step, are sampled until there are enough groups whose rewards differ; what is
    missing after the last round is filled up with tied groups, which add nothing to the gradient.
    """
    from stages.examples import batch_of

    settings = run.settings
    wanted, rounds = settings.n_prompts_per_rollout_batch, settings.max_sampling_rounds
    alive: list[list[Row]] = []
    tied: list[list[Row]] = []
    for number in range(rounds):
        place = run.step + number * settings.n_grpo_steps
        questions = batch_of(run.train, wanted, place, settings.seed, settings.question_order)
        numbers = {"rollout_batch": run.step + 1, "seed_step": place}
        rows = run.sample(questions, clock, group_size=settings.group_size, **numbers)
        set_advantages(rows, settings)
        groups = [rows[start : start + settings.group_size] for start in range(0, len(rows), settings.group_size)]
        if rounds == 1:
            return rows, []
        for group in groups:
            (alive if any(row["advantage"] for row in group) else tied).append(group)
        if len(alive) >= wanted:
            break
    groups = alive + tied
    for group in groups[wanted:]:
        for row in group:
            row["advantage"] = None
    return [row for group in groups[:wanted] for row in group], [row for group in groups[wanted:] for row in group]


def set_advantages(rows: list[Row], settings: Any) -> None:
    """Fill `reward`, what training sees, and `advantage`, from whole groups of graded rows."""
    import torch

    from stages.algorithm.advantages import group_advantages

    for row in rows:
        row["reward"] = TRAINING_REWARDS[settings.training_reward](row)
    advantages = group_advantages(
        torch.tensor([row["reward"] for row in rows]),
        settings.group_size,
        advantage_eps=settings.advantage_eps,
        normalize_by_std=settings.use_std_normalization,
    )
    for row, advantage in zip(rows, advantages.tolist(), strict=True):
        row["advantage"] = advantage


def coin(row: Row) -> float:
    """A reward that knows nothing of the answer: the control for what training does by itself."""
    from stages.engines.protocol import sample_seed

    return float(
        sample_seed(row["seed"], row["rollout_batch"] - 1, f"coin/{row['example_id']}", row["sample_index"]) % 2
    )


TRAINING_REWARDS = {
    "answer": lambda row: row["answer_reward"],
    "format": lambda row: row["format_reward"],
    "random": coin,
}


def train_batch(rows: list[Row], settings: Any, step: int, index: int) -> list[Row]:
    """The rows of the `index`-th optimiser step on this rollout batch: whole groups, reshuffled in every epoch.

    One optimiser step that takes all rollouts takes them as they lie; order would not change its gradient.
    """
    import random

    per_epoch = settings.rollout_batch_size // settings.train_batch_size
    epoch, part = divmod(index, per_epoch)
    if per_epoch == 1:
        return rows
    size = settings.group_size if settings.train_batch_size % settings.group_size == 0 else 1
    blocks = [rows[start : start + size] for start in range(0, len(rows), size)]
    random.Random(f"{settings.seed}/{step}/{epoch}").shuffle(blocks)
    shuffled = [row for block in blocks for row in block]
    return shuffled[part * settings.train_batch_size : (part + 1) * settings.train_batch_size]


def rollout_metrics(rows: list[Row], spare: list[Row], group_size: int) -> Row:
    """METRICS columns that describe a rollout batch: rewards, lengths, entropy, and how many groups still teach.

    They are of all that the policy wrote, `spare` included, which is sampled and not trained on; what is trained on has
    columns of its own.
    """
    from stages.measure import validation_metrics

    sampled = rows + spare
    groups = [sampled[start : start + group_size] for start in range(0, len(sampled), group_size)]
    tied = [len({row["reward"] for row in group}) == 1 for group in groups]
    return validation_metrics(sampled, step=0, seconds=0.0) | {
        "zero_variance_groups": sum(tied) / len(tied),
        "kept": len(rows) / len(sampled),
        "kept_reward": sum(row["reward"] for row in rows) / len(rows),
        "advantage_magnitude": sum(abs(row["advantage"]) for row in rows) / len(rows),
    }


if __name__ == "__main__":
    console.run(app)
