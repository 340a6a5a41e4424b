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


def _sizes(heads: int, kv_heads: int, head_size: int) -> dict:
    return {
        "vocab_size": len(tokenizer()),
        "hidden_size": head_size * heads,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 512,
        "eos_token_id": tokenizer().eos_token_id,
        "bos_token_id": None,
        "initializer_range": 0.2,  # far from uniform, so that a wrong mask or position shows
    }


def qwen(seed: int = 0, head_size: int = 8) -> Qwen2ForCausalLM:
    """Tied embeddings, as many key-value heads as heads."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(Qwen2Config(**_sizes(4, 4, head_size), tie_word_embeddings=True)).eval()


def llama(seed: int = 0, head_size: int = 8) -> LlamaForCausalLM:
    """Untied head, grouped-query attention: four heads share two key-value heads."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**_sizes(4, 2, head_size), tie_word_embeddings=False)).eval()


@torch.no_grad()
def chain(script: list[int], head_size: int = 8) -> LlamaForCausalLM:
    """A model that says `script` after any prompt without a token of it, then its last token for ever.

    The next token is a function of the last one alone: layers add nothing, and embedding and head hold a table.
    Tokens of the script, all different, have a direction each; all others share one, which leads to the script's start.
    """
    assert len(set(script)) == len(script)
    model = llama(head_size=head_size)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    embedding.zero_()
    head.zero_()
    embedding[:, 0] = 1.0
    for i, (token, following) in enumerate(zip(script, [*script[1:], script[-1]], strict=True), start=1):
        embedding[token] = 0.0
        embedding[token, i] = 1.0
        head[following, i] = 10.0
    head[script[0], 0] = 10.0
    return model


MODELS = {"qwen": qwen, "llama": llama}
