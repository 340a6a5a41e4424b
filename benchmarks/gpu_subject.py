"""What `gpu_check` measures: a policy of random weights at any size, held as the stages hold it; and a stopwatch."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from stages.hardware import Compute
from stages.policy.loading import best_device, save_policy
from stages.policy.processes import joined
from stages.policy.tiny import make_tokenizer
from stages.policy.trainable import load_trainable
from stages.tasks import arithmetic

Row = dict[str, Any]
END = 0  # the tokenizer's first id is its end token; random prompts and responses stay clear of it


@dataclass(frozen=True)
class Sizes:
    """`model` is a Qwen2Config's own words. A training micro-batch is `group` responses of `response` tokens to a
    prompt of `prompt` tokens; engines sample `sampled` tokens for each of `rollouts` responses."""

    model: Row
    group: int
    prompt: int
    response: int
    sampled: int
    rollouts: int
    documents: int
    repeats: int


QWEN = {  # Qwen2.5-1.5B
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
}
TINY = {
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}
REAL = Sizes(QWEN, group=8, prompt=256, response=1024, sampled=256, rollouts=128, documents=128, repeats=3)
SMALL = Sizes(TINY, group=4, prompt=16, response=24, sampled=6, rollouts=8, documents=12, repeats=1)


def make_policy(sizes: Sizes, folder: Path) -> None:
    """Random weights of the given shape in bfloat16, with a small tokenizer."""
    torch.manual_seed(0)
    tokenizer = wide_tokenizer(sizes.model["vocab_size"])
    config = Qwen2Config(
        **sizes.model,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        dtype="bfloat16",
    )
    with best_device():
        model = Qwen2ForCausalLM(config)
    save_policy(model, tokenizer, folder, torch.bfloat16)


def wide_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """A small tokenizer, filled up with words that no text contains, so that every id of the model has a text."""
    small = make_tokenizer(islice(arithmetic.documents(0, 0.2, 0.8), 300), 400)
    told = json.loads(small.backend_tokenizer.to_str())
    told["model"]["vocab"] |= {f"unused {place}": place for place in range(len(small), vocab_size)}
    wide = Tokenizer.from_str(json.dumps(told))
    return PreTrainedTokenizerFast(tokenizer_object=wide, eos_token=small.eos_token, pad_token=small.pad_token)


@contextmanager
def trainer(folder: Path, **changes: Any) -> Iterator[Any]:
    """The policy as training stages hold it, in bfloat16; what it took is given back after the block."""
    compute = Compute(dtype="bfloat16", **changes)
    with joined(compute):
        yield load_trainable(folder, compute)[0]
    release()


def release() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], repeats: int) -> Row:
    """Median `seconds` of `work` after one call that warms up, and the highest `gib` of GPU memory it took in all."""
    work()
    wait()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    return {"seconds": statistics.median(seconds), "gib": peak}
