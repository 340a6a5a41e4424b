"""How far a decoder sees, and how far it was made to: what its config says of lengths, whatever it calls them."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

WINDOWS = ("sliding_window", "attention_window_size", "window_size", "attention_chunk_size")
MOVING = ("longrope", "dynamic")  # rotary frequencies that change once a sequence exceeds what came first


def window(model: nn.Module) -> float:
    """How many tokens back the least of its layers sees; no bound where all see everything."""
    config = model.config.get_text_config()
    found = [getattr(config, name, None) for name in WINDOWS]
    return min((size for size in found if isinstance(size, int) and size > 0), default=math.inf)


def positions(model: nn.Module) -> int | None:
    """How many tokens one sequence may have; None where the config names no bound.

    Where rotary frequencies change with length (LongRoPE), those before the change alone: beyond it the numbers of all
    tokens of a sequence, and of those beside it in a batch, would be others with every token that crosses it.
    """
    config = model.config.get_text_config()
    bounds = [getattr(config, "max_position_embeddings", None)]
    bounds += [_original(config, each) for each in _ropes(getattr(config, "rope_parameters", None))]
    return min((bound for bound in bounds if bound is not None), default=None)


def _ropes(parameters: Any) -> list[dict[str, Any]]:
    """The settings of rotary embeddings: one, or one for each kind of layer."""
    if not isinstance(parameters, dict):
        return []
    return [parameters] if "rope_type" in parameters else [each for each in parameters.values() if each]


def _original(config: Any, rope: dict[str, Any]) -> int | None:
    if rope.get("rope_type") not in MOVING:
        return None
    return rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
