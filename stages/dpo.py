"""Direct preference optimisation (Rafailov et al. 2023, arXiv 2305.18290) on pairs of responses.

The policy that training starts from is the frozen reference: its log-probabilities of every pair are computed once,
before the first step, so that one model in memory is enough. The checkpoint that is kept is the one with the best
validation accuracy.

python -m stages.dpo --spec … --model … --train … --validation … --state … --metrics … …
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from stages import console
from stages.files import Files, command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Row = dict[str, Any]


@command(app)
def main(files: Files) -> None:
    """Train a policy to prefer chosen over rejected responses, and keep the checkpoint that does so best."""
    prefer(files)


@dataclass(frozen=True)
class Compared:
    """Pairs as tokens, and the reference's [chosen, rejected] log-probabilities of each, in nats."""

    pairs: list[Any]
    reference: list[list[float]]


def prefer(files: Any, step: Any = None) -> None:
    """The whole stage; `step` takes the place of `dpo_step`."""
    from stages import training
    from stages.alignment import total_steps

    with training.opened("dpo", files) as run:
        train = pairs_of(run, run.train, files.train)
        validation = pairs_of(run, run.validation, files.validation)
        reference, reference_of_validation = reference_log_probs(run, train, validation)
        run.total = total_steps(len(train), run.settings)
        training.train(
            run,
            partial(step or dpo_step, data=Compared(train, reference)),
            partial(preferences, data=Compared(validation, reference_of_validation)),
            keep_best="preference_accuracy",
        )


def pairs_of(run: Any, rows: list[Row], file: Path) -> list[Any]:
    """The rows as tokens, without those that are too long; raises DataError where none is left."""
    from stages.policy.preference import encode_pair
    from stages.records import DataError

    pairs = [encode_pair(run.tokenizer, row["prompt"], row["chosen"], row["rejected"]) for row in rows]
    longest = min(run.settings.max_document_tokens, run.positions)
    kept = [pair for pair in pairs if len(pair) <= longest]
    if not kept:
        raise DataError(f"{file}: no pair has at most {longest} tokens (max_document_tokens, the policy's positions)")
    if len(kept) < len(pairs):
        console.say(f"{file}: {len(pairs) - len(kept)} of {len(pairs)} pairs exceed {longest} tokens and are left out")
    return kept


def reference_log_probs(run: Any, *sets: list[Any]) -> list[list[list[float]]]:
    """[chosen, rejected] of each pair of each set under the policy as it was loaded; kept beside the checkpoints.

    Set by set, as a validation scores them: before training the margins of validation pairs are then exactly 0.
    """
    from stages.policy.preference import all_log_probs
    from stages.policy.processes import leads, share
    from stages.store import digest, write_json

    file = run.state.folder / "reference.json"
    found = share(kept_reference(file) if leads() else None)
    if found is None:
        budget, shared = run.settings.micro_batch_tokens, run.settings.share_prompts
        with console.progress(f"{run.name}, reference", sum(map(len, sets))) as advance:
            found = [all_log_probs(run.model, pairs, budget, shared, advance) for pairs in sets]
        if leads():
            write_json(file, {"sets": found, "digest": digest(found)})
    return found


def kept_reference(file: Path) -> list[list[list[float]]] | None:
    """What an earlier attempt has scored; None where it is not there, or not as it was written: it is scored again."""
    from stages.store import digest

    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return kept["sets"] if digest(kept["sets"]) == kept["digest"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def dpo_step(run: Any, data: Compared) -> list[Row]:
    """One optimiser step over `train_batch_size` pairs; the loss is the mean over them."""
    import torch

    from stages.algorithm.dpo import dpo_loss, preference_metrics
    from stages.examples import batch_of
    from stages.policy.preference import micro_batches, pair_log_probs
    from stages.policy.processes import dealt, gather

    settings = run.settings
    began = time.monotonic()
    places = batch_of(range(len(data.pairs)), settings.train_batch_size, run.step, settings.seed)
    pairs = [data.pairs[place] for place in places]
    reference = torch.tensor([data.reference[place] for place in places])
    scored: list[tuple[int, list[float]]] = []
    for part, weight in dealt(micro_batches(pairs, settings.micro_batch_tokens)):
        log_probs = pair_log_probs(run.model, [pairs[place] for place in part], settings.share_prompts)
        columns = (*log_probs.unbind(-1), *reference[part].to(log_probs.device).unbind(-1))
        (weight * dpo_loss(*columns, settings.beta).sum() / len(pairs)).backward()
        scored += zip(part, log_probs.tolist(), strict=True) if weight else ()
    taken = run.descend(len(pairs))
    policy = [values for _, values in sorted(one for found in gather(scored) for one in found)]
    return [
        {
            **taken,
            "num_tokens": sum(len(pair.chosen) + len(pair.rejected) for pair in pairs),
            **preference_metrics(torch.tensor(policy), reference, settings.beta),
            "seconds_train": time.monotonic() - began,
        }
    ]


def preferences(run: Any, data: Compared) -> tuple[Row, list[Row]]:
    """METRICS columns of the validation pairs, and answers to some of their prompts."""
    import torch

    from stages.algorithm.dpo import preference_metrics
    from stages.alignment import answers
    from stages.policy.preference import all_log_probs

    settings = run.settings
    policy = all_log_probs(run.model, data.pairs, settings.micro_batch_tokens, settings.share_prompts)
    found = preference_metrics(torch.tensor(policy), torch.tensor(data.reference), settings.beta)
    return {"num_examples": len(data.pairs), **found}, answers(run, "chosen")


if __name__ == "__main__":
    console.run(app)
