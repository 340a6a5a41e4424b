"""Policies from and to self-contained Hugging Face folders: weights (safetensors only), config, tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from stages.records import DataError

disable_progress_bar()  # a bar of its own for every load and save would drown the stage's progress

Policy = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_policy(folder: Path | str, dtype: torch.dtype = torch.float32, revision: str | None = None) -> Policy:
    """Model (on the best device, evaluation mode, dropout off) and tokenizer of a local folder or a hub id.

    Raises DataError naming the folder. Code that a model repository brings along is never run.
    """
    tokenizer = load_tokenizer(folder, revision)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, revision=revision, dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise _unusable(folder, error) from error
    return model.to(best_device()).eval(), tokenizer


def load_tokenizer(folder: Path | str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer alone, with a token to pad with. Raises DataError naming the folder."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unusable(folder, error) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _unusable(folder: Path | str, error: Exception) -> DataError:
    return DataError(
        f"{folder}: cannot load a policy from it ({str(error).strip().splitlines()[0]}); it needs config.json, "
        "model.safetensors and tokenizer files"
    )


def save_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write weights, config and tokenizer, so that the folder stands alone."""
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def parameter_count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
