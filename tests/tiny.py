"""Small real models for tests: random weights, real tokenizer, every architecture feature that matters here."""

from __future__ import annotations

from functools import cache
from itertools import islice

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from stages.policy.tiny import make_tokenizer
from stages.tasks.arithmetic import documents


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer(islice(documents(0, 0.2, 0.8), 300), 400)


def _sizes(heads: int, kv_heads: int) -> dict:
    return {
        "vocab_size": len(tokenizer()),
        "hidden_size": 8 * heads,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 512,
        "eos_token_id": tokenizer().eos_token_id,
        "bos_token_id": None,
        "initializer_range": 0.2,  # far from uniform, so that a wrong mask or position shows
    }


def qwen(seed: int = 0) -> Qwen2ForCausalLM:
    """Tied embeddings, as many key-value heads as heads."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(Qwen2Config(**_sizes(4, 4), tie_word_embeddings=True)).eval()


def llama(seed: int = 0) -> LlamaForCausalLM:
    """Untied head, grouped-query attention: four heads share two key-value heads."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**_sizes(4, 2), tie_word_embeddings=False)).eval()


MODELS = {"qwen": qwen, "llama": llama}
