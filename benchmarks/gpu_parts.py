"""What `gpu_check` measures, part by part, at any size and on any device. Every part is the product's own code."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.gpu_subject import END, Row, Sizes, release, timed, trainer
from benchmarks.ladder_peer import grpo_run, take_step
from benchmarks.scaling import do_all_work
from stages.engines.opening import open_engine
from stages.engines.protocol import Request, Sampling, sample_seed
from stages.hardware import Compute
from stages.policy.loading import best_device, load_tokenizer
from stages.policy.optimizer import make_optimizer, step_optimizer
from stages.policy.scoring import Sequences, make_sequences, score
from stages.policy.sharding import within_forward
from stages.tasks import arithmetic

# ---------------------------------------------------------------- a training step


def train_steps(sizes: Sizes, folder: Path) -> Iterator[Row]:
    """One optimiser step over one micro-batch: dense logits, then the product's path and its switches."""
    batch = group_of_responses(sizes)
    for name, (scored, changes) in WAYS.items():
        with trainer(folder, **changes) as model:
            optimizer = make_optimizer(model, (0.9, 0.95), 0.0)

            def step(model=model, optimizer=optimizer, scored=scored) -> None:
                scored(model, batch).mean().backward()
                step_optimizer(model, optimizer, 1e-6, 1.0)

            try:
                found = timed(step, sizes.repeats)
            except torch.OutOfMemoryError:
                found = {"seconds": None, "gib": None, "note": "out of memory"}
        yield {"path": name, **found, "flops": step_flops(sizes, scored)}


def group_of_responses(sizes: Sizes) -> Sequences:
    generator = random.Random(0)
    ids = range(END + 1, sizes.model["vocab_size"])
    responses = [generator.choices(ids, k=sizes.response) for _ in range(sizes.group)]
    return make_sequences([generator.choices(ids, k=sizes.prompt)], responses, best_device())


def dense(model: Any, batch: Sequences) -> torch.Tensor:
    """The textbook: logits of every position of every whole sequence, log-softmax, gather."""
    prompts = batch.prompt_ids.expand(len(batch.response_ids), -1)
    ids = torch.cat([prompts, batch.response_ids], dim=1)

    def forward() -> torch.Tensor:  # [B, P + T - 1, 1]
        logits = model.lm_head(model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state)
        return logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None])

    return within_forward(model, forward)[:, prompts.shape[1] - 1 :, 0]


def plain(model: Any, batch: Sequences) -> torch.Tensor:
    return score(model, batch, temperature=1.0, shared=False)[0]


def shared(model: Any, batch: Sequences) -> torch.Tensor:
    return score(model, batch, temperature=1.0, shared=True)[0]


WAYS: dict[str, tuple[Callable[[Any, Sequences], torch.Tensor], Row]] = {
    "dense logits, prompt per response": (dense, {}),
    "chunked head, prompt per response": (plain, {}),
    "chunked head, shared prompt": (shared, {}),
    "the same, layers recomputed": (shared, {"gradient_checkpointing": True}),
    "the same, compiled": (shared, {"compile": True}),
}


def step_flops(sizes: Sizes, scored: Callable[..., Any]) -> float:
    """Floating-point operations that a forward and a backward pass cannot do without, on this path.

    Two per weight and token forwards, four backwards; in attention four per width and pair of positions that see each
    other forwards, eight backwards. What is computed a second time to save memory does not count.
    """
    m, group, prompt, response = sizes.model, sizes.group, sizes.prompt, sizes.response
    hidden, keys = m["hidden_size"], m["hidden_size"] // m["num_attention_heads"] * m["num_key_value_heads"]
    layer = 2 * hidden * hidden + 2 * hidden * keys + 3 * hidden * m["intermediate_size"]
    prompts = 1 if scored is shared else group
    body = prompts * prompt + group * response
    scored_tokens = group * (prompt + response) if scored is dense else group * response
    pairs = prompts * prompt**2 / 2 + group * (response * prompt + response**2 / 2)
    weights = m["num_hidden_layers"] * layer * body + m["vocab_size"] * hidden * scored_tokens
    return 6.0 * weights + 12.0 * m["num_hidden_layers"] * hidden * pairs


# ---------------------------------------------------------------- engines

VLLM = {"engine": "vllm", "gpu_memory_utilization": 0.4}
ENGINES: dict[str, dict[str, Row]] = {
    "engines": {"transformers": {}},
    "vllm_asleep": {"vLLM, asleep while the trainer works": VLLM | {"placement": "same_gpu"}},
    "vllm_inside": {"vLLM, in the trainer's process": VLLM},
}


def engines(sizes: Sizes, folder: Path, ways: dict[str, Row]) -> Iterator[Row]:
    """Sampling at full batch size, how long new weights take from the trainer to the engine, and that they arrive."""
    generator = random.Random(1)
    ids = range(END + 1, sizes.model["vocab_size"])
    prompts = [generator.choices(ids, k=sizes.prompt) for _ in range(sizes.rollouts // sizes.group)]
    requests = [
        Request(prompt, [sample_seed(0, 0, str(place), i) for i in range(sizes.group)])
        for place, prompt in enumerate(prompts)
    ]
    sampling = Sampling(min_tokens=sizes.sampled, max_tokens=sizes.sampled, stop=())
    for name, changes in ways.items():
        if reason := missing(changes):
            yield {"engine": name, "note": reason}
            continue
        found = engine_row(sizes, folder, changes, requests, sampling)
        if found["gap"] > found["moved"] / 4:
            raise RuntimeError(
                f"{name} samples from other weights than the trainer's: {found['gap']:.2f} nats between them, where "
                f"new weights are {found['moved']:.2f} from the old"
            )
        yield {"engine": name, **found}


def engine_row(sizes: Sizes, folder: Path, changes: Row, requests: list[Request], sampling: Sampling) -> Row:
    with trainer(folder, **changes) as model:
        compute = Compute(dtype="bfloat16", **changes)
        engine = open_engine(compute, folder, model, load_tokenizer(folder), sizes.rollouts)
        sampled = timed(lambda: engine.generate(requests, sampling), 1)["seconds"]
        synced = timed(lambda: engine.sync(model), sizes.repeats)["seconds"]
        gaps = gap_to_trainer(model, engine, requests[0], sampling)
    speed = sizes.rollouts * sizes.sampled / sampled
    return {"seconds": sampled, "tokens_per_second": speed, "sync_seconds": synced, **gaps}


def missing(changes: Row) -> str:
    """Why a way to sample cannot be measured here, or "" if it can."""
    if changes.get("engine") != "vllm":
        return ""
    if find_spec("vllm") is None:
        return "not installed"
    return "" if torch.cuda.is_available() or "placement" not in changes else "needs a GPU"


@torch.no_grad()
def gap_to_trainer(model: Any, engine: Any, request: Request, sampling: Sampling) -> Row:
    """After weights twice as large went over, the mean distance in nats from the trainer's log-probs of the engine's
    (`gap`) and of the trainer's own under the old weights (`moved`). Of bfloat16 the first is a tenth of the second."""

    def scale(factor: float) -> None:
        for parameter in model.parameters():
            parameter.mul_(factor)

    def trainers() -> torch.Tensor:
        return score(model, batch, temperature=1.0, shared=False)[0]

    scale(2.0)
    engine.sync(model)
    (answers,) = engine.generate([request], sampling)
    batch = make_sequences([request.prompt_token_ids], [answer.token_ids for answer in answers], best_device())
    new, told = trainers(), torch.tensor([answer.log_probs for answer in answers], device=best_device())
    scale(0.5)
    return {"gap": (new - told).abs().mean().item(), "moved": (new - trainers()).abs().mean().item()}


# ---------------------------------------------------------------- a whole GRPO step


def grpo_step(sizes: Sizes, folder: Path) -> Iterator[Row]:
    """Seconds of each phase of the product's step, after one that warms up; every response runs to its full length."""
    values = {
        "train": "train",
        "validation": "validation",
        "rollout_batch_size": sizes.rollouts,
        "train_batch_size": sizes.rollouts,
        "group_size": sizes.group,
        "gradient_accumulation_steps": sizes.rollouts // sizes.group,
        "sampling_min_tokens": sizes.sampled,
        "sampling_max_tokens": sizes.sampled,
        "sampling_batch_size": sizes.rollouts,
        "learning_rate": 1e-6,
        "loss_type": "grpo_clip",
    }
    questions = arithmetic.examples("train", 4 * sizes.rollouts // sizes.group, 0)
    with TemporaryDirectory(prefix="gpu_check.") as name:
        with grpo_run(Path(name), folder, values, questions, {"dtype": "bfloat16"}) as run:
            do_all_work(run)
            take_step(run)
            row = take_step(run)[-1]
    release()
    for phase in ("sample", "grade", "score", "train", "sync"):
        yield {"phase": phase, "seconds": row.get(f"seconds_{phase}")}


# ---------------------------------------------------------------- documents of unequal length


def padding(sizes: Sizes, folder: Path) -> Iterator[Row]:
    """The same documents, most of them short, padded as they come, padded beside their like, and packed."""
    generator = random.Random(2)
    widest = sizes.prompt + sizes.response
    lengths = [max(4, min(widest, round(generator.lognormvariate(0, 1) * widest / 6))) for _ in range(sizes.documents)]
    ids = range(END + 1, sizes.model["vocab_size"])
    documents = [generator.choices(ids, k=length) for length in lengths]
    budget = sizes.group * widest
    stream = [token for document in documents for token in document]
    layouts = {
        "padded, as they come": cut(documents, budget),
        "padded, alike together": cut(sorted(documents, key=len), budget),
        "packed": cut([stream[at : at + widest] for at in range(0, len(stream) - 1, widest)], budget),
    }
    with trainer(folder) as model:
        for name, parts in layouts.items():
            batches = [make_sequences([d[:1] for d in part], [d[1:] for d in part], best_device()) for part in parts]

            def step(model=model, batches=batches) -> None:
                for batch in batches:
                    plain(model, batch).mean().backward()
                model.zero_grad(set_to_none=True)

            seconds = timed(step, sizes.repeats)["seconds"]
            places = sum(len(part) * max(map(len, part)) for part in parts)
            yield {"layout": name, "tokens_per_second": len(stream) / seconds, "padding": 1 - len(stream) / places}


def cut(documents: Sequence[list[int]], budget: int) -> list[list[list[int]]]:
    """Parts of at most `budget` tokens each with their padding, in the given order."""
    parts: list[list[list[int]]] = [[]]
    for document in documents:
        widest = max(map(len, [*parts[-1], document]))
        if parts[-1] and (len(parts[-1]) + 1) * widest > budget:
            parts.append([])
        parts[-1].append(document)
    return parts


PARTS: dict[str, Callable[[Sizes, Path], Iterator[Row]]] = {
    "train": train_steps,
    "engines": partial(engines, ways=ENGINES["engines"]),
    "grpo": grpo_step,
    "padding": padding,
    "vllm_asleep": partial(engines, ways=ENGINES["vllm_asleep"]),
    "vllm_inside": partial(engines, ways=ENGINES["vllm_inside"]),  # last: it keeps its memory until the program ends
}
