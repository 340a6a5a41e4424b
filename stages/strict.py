"""The ground of every config object: frozen, unknown keys refused, faults told in one line each.

Nothing here imports torch, so the workflow checks values with the same code when it plans.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Model = TypeVar("Model", bound=BaseModel)
Positive = Annotated[int, Field(gt=0)]
Count = Positive | Literal["full"]
Rate = Annotated[float, Field(ge=0, lt=float("inf"))]
Fraction = Annotated[float, Field(ge=0, le=1)]


class ConfigError(ValueError):
    """A value that cannot work. The message is one readable text naming the key."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


# ---------------------------------------------------------------- reading


def nearest(name: str, known: list[str]) -> str:
    """`, did you mean …?` for a name that is not among the known ones, or the list of them."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(sorted(known))}"


def explain(error: ValidationError, where: str, kind: type[BaseModel] | None = None) -> str:
    """One line per fault: the dotted key, what is wrong, what was given."""
    lines = []
    for fault in error.errors():
        key = ".".join(str(part) for part in (where, *fault["loc"]) if part != "")
        if fault["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key; {nearest(str(fault['loc'][-1]), _siblings(kind, fault['loc']))}")
        else:
            message = fault["msg"].removeprefix("Value error, ")
            given = "" if isinstance(fault["input"], (dict, BaseModel)) else f" (got {fault['input']!r:.80})"
            lines.append(f"{key}: {message}{given}")
    return "\n".join(lines)


def _siblings(kind: Any, loc: tuple) -> list[str]:
    """Field names that stand beside the unknown key at `loc`, following nested models and mappings."""
    for part in loc[:-1]:
        if isinstance(kind, type) and issubclass(kind, BaseModel) and part in kind.model_fields:
            kind = kind.model_fields[part].annotation
        choices = [kind, *_arguments(kind)]
        by_tag = [c for c in choices if _tag(c) == part]
        models = by_tag or [c for c in choices if isinstance(c, type) and issubclass(c, BaseModel)]
        kind = models[0] if models else kind
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _arguments(kind: Any) -> list[Any]:
    """Every type nested in an annotation: `dict[str, A | B]` gives str, A | B, A, B."""
    inner = list(getattr(kind, "__args__", ()))
    return inner + [deeper for argument in inner for deeper in _arguments(argument)]


def _tag(kind: Any) -> str | None:
    """The literal value of a model's `source` discriminator."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and "source" in kind.model_fields:
        return next(iter(getattr(kind.model_fields["source"].annotation, "__args__", ())), None)
    return None


def parse(kind: type[Model], values: dict[str, Any], where: str) -> Model:
    """`values` as a `kind`; raises ConfigError naming `where` and the key."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, where, kind)) from None


def read_spec(path: Path) -> dict[str, Any]:
    """The JSON specification of a job, written when it was planned."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; the workflow writes it when it plans the job") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON ({error}); delete it and run the workflow again") from None
