"""The base policy: the shipped one, one pretrained here on generated arithmetic text, a local folder or one of the hub.

python -m stages.base_model --spec … --state … --model … --metrics …
"""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from stages import console, records, sums
from stages.sources import ModelSource, Pretrain
from stages.store import State, new_directory, provenance
from stages.strict import parse, read_spec

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    spec: Annotated[Path, typer.Option(help="specification of the model (JSON, written by the workflow)")],
    state: Annotated[Path, typer.Option(help="folder for unfinished work; resumed from if the spec is the same")],
    model: Annotated[Path, typer.Option(help="Hugging Face folder to write")],
    metrics: Annotated[Path, typer.Option(help="Parquet file of training metrics to write")],
) -> None:
    """Make the base policy: a self-contained Hugging Face folder (safetensors, config, tokenizer)."""
    plan = read_spec(spec)
    source = parse(ModelSource, plan["values"], "model")
    rows: list[dict[str, Any]] = []
    if source.pretrain:
        with State(state, plan) as held:
            rows = pretrain(source.pretrain, held, model)
            held.clear()
    else:
        copy(source, model)
    from stages.policy.taken import taken

    records.write_table(metrics, records.table(rows, records.METRICS), provenance(plan) | taken(1))


def copy(source: ModelSource, target: Path) -> None:
    """Load and save, so that what lies under results/ is complete, is safetensors, and does not change under a run."""
    from transformers import AutoConfig

    from stages.policy import shipped
    from stages.policy.loading import load_policy, save_policy

    origin = shipped.folder(source.shipped) if source.shipped else source.path or source.hub
    try:
        dtype = AutoConfig.from_pretrained(origin, revision=source.revision, trust_remote_code=False).dtype
    except Exception as error:  # a config that cannot be is told of in errors of many kinds
        hint = "offline, give a local folder as model.path instead" if source.hub else "check the folder"
        raise records.DataError(f"model {origin}: {str(error).strip().splitlines()[0]} ({hint})") from error
    with new_directory(target) as folder:
        save_policy(*load_policy(origin, dtype=dtype, revision=source.revision), folder)
        sums.seal(folder)


def pretrain(settings: Pretrain, state: State, target: Path) -> list[dict[str, Any]]:
    """Next-token training on a stream of documents. Returns one METRICS row per step."""
    from stages.policy.checkpoint import load_training, save_training
    from stages.policy.loading import parameter_count, refuse_not_finite, save_policy
    from stages.policy.optimizer import make_optimizer
    from stages.policy.tiny import make_policy
    from stages.tasks.arithmetic import documents

    sample = documents(settings.seed, settings.wrong_step_fraction, settings.bare_question_fraction)
    model, tokenizer = make_policy(settings, islice(sample, 3000))
    model.train()
    console.say(f"{parameter_count(model):,} parameters, {len(tokenizer)} tokens")
    optimizer = make_optimizer(model, betas=(0.9, 0.98), weight_decay=0.01)
    newest = state.newest()
    facts = load_training(newest[1], model, optimizer) if newest else {"rows": [], "seconds": 0.0}
    rows, began = facts["rows"], time.monotonic() - facts["seconds"]
    with console.progress("pretraining", settings.n_steps, done=len(rows)) as advance:
        for step in range(len(rows), settings.n_steps):
            rows.append(pretraining_step(model, tokenizer, optimizer, settings, step))
            rows[-1]["seconds"] = time.monotonic() - began
            advance(1, f"loss {rows[-1]['loss']:.3f}")
            if (step + 1) % settings.checkpoint_every == 0 and step + 1 < settings.n_steps:
                with state.save(step + 1) as folder:
                    facts = {"rows": rows, "seconds": rows[-1]["seconds"]}
                    save_training(folder, model, optimizer, facts)
    refuse_not_finite(model, target)
    with new_directory(target) as folder:
        save_policy(model, tokenizer, folder)
        sums.seal(folder)
    return rows


def pretraining_step(model, tokenizer, optimizer, settings: Pretrain, step: int) -> dict[str, Any]:
    """One optimiser step on the batch of its turn: METRICS columns, seconds excepted."""
    import torch

    from stages.policy.optimizer import step_optimizer

    tokens = token_batch(settings, tokenizer, step)
    logits = model(input_ids=tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    rate = pretraining_rate(settings, step)
    return {
        "step": step + 1,
        "kind": "train",
        "num_tokens": tokens[:, 1:].numel(),
        "learning_rate": rate,
        "loss": loss.item(),
        "gradient_norm": step_optimizer(model, optimizer, rate, max_norm=1.0),
    }


def pretraining_rate(settings: Pretrain, step: int) -> float:
    """Warm up over 60 steps, hold, and come down linearly to a twentieth over the last two fifths."""
    up = min(1.0, (step + 1) / 60)
    down = min(1.0, max(0.05, (settings.n_steps - step) / (0.4 * settings.n_steps)))
    return settings.learning_rate * up * down


def token_batch(settings: Pretrain, tokenizer, step: int):
    """The batch of one step, a function of (seed, step) alone: packed documents, each closed by the end token.

    Returns int64 [sequences_per_step, sequence_length + 1].
    """
    import torch

    from stages.tasks.arithmetic import documents

    wanted = settings.sequences_per_step * (settings.sequence_length + 1)
    stream = documents((settings.seed << 32) + step + 1, settings.wrong_step_fraction, settings.bare_question_fraction)
    ids: list[int] = []
    while len(ids) < wanted:
        for document in tokenizer(list(islice(stream, 64))).input_ids:
            ids += [*document, tokenizer.eos_token_id]
    return torch.tensor(ids[:wanted]).view(settings.sequences_per_step, settings.sequence_length + 1)


if __name__ == "__main__":
    console.run(app)
