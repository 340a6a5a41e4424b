"""A policy small enough to train on a laptop: Qwen2 architecture, byte-level BPE with single digits."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from stages.policy.loading import Policy
from stages.sources import Pretrain

END = "<|endoftext|>"


def make_tokenizer(documents: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE over `documents`. Digits stay single, so that arithmetic is over digits, not over chunks of them.

    Any string can be encoded and comes back unchanged.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)


def make_model(config: Pretrain, tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Freshly initialised from `config.seed`; embeddings tied."""
    torch.manual_seed(config.seed)
    architecture = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden_size,
        intermediate_size=2 * config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_heads,
        max_position_embeddings=config.context_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(architecture)


def make_policy(config: Pretrain, documents: Iterable[str]) -> Policy:
    tokenizer = make_tokenizer(documents, config.vocab_size)
    return make_model(config, tokenizer), tokenizer
