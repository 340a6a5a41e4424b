"""The ground of every config object: frozen, unknown keys refused, faults told in one line each.

Nothing here imports torch, so the workflow checks values with the same code when it plans.
"""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

Model = TypeVar("Model", bound=BaseModel)
Positive = Annotated[int, Field(gt=0)]
Count = Positive | Literal["full"]
Rate = Annotated[float, Field(ge=0, lt=float("inf"))]
Fraction = Annotated[float, Field(ge=0, le=1)]
Named = Annotated[str, Field(min_length=1)]  # a path, or the name of something
WITH_EXPONENT = r"[-+]?\d[\d_]*\.[\d_]*[eE][-+]\d+"  # a number as YAML 1.1 writes it
WORDS = {  # what pydantic says in Python's terms, in those of a config file
    "tuple_type": "Input should be a list, as in [1, 2]",
    "dict_type": "Input should be a section of keys and values",
    "model_type": "Input should be a section of keys and values",
    "string_type": "Input should be text; in quotes, where YAML reads something else (on, off, yes, no, numbers)",
}


class ConfigError(ValueError):
    """A value that cannot work. The message is one readable text naming the key."""


class Strict(BaseModel):
    """Unknown keys are refused, and so is a number read out of true: `n_steps: true` is no 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="wrap")
    @classmethod
    def nothing_guessed(cls, values: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        model = read(values)
        given = values if isinstance(values, dict) else {}
        told = {key: fault for key, value in given.items() if (fault := _guessed(value, getattr(model, key)))}
        faults = [
            InitErrorDetails(
                type=PydanticCustomError("guessed", "{fault}", {"fault": fault}), loc=(key,), input=given[key]
            )
            for key, fault in told.items()
        ]
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        return model


def _guessed(given: Any, value: Any) -> str | None:
    """What is wrong with a number, or with true or false, that was read out of something else; looks into lists.

    Text that YAML would read as that number is one: Snakemake hands over what stands in `--config 'a={b: 4}'` as text.
    """
    if isinstance(value, tuple) and isinstance(given, (list, tuple)):
        return next((fault for pair in zip(given, value, strict=True) if (fault := _guessed(*pair))), None)
    if not isinstance(value, (bool, int, float)):
        return None
    if isinstance(given, str):
        told = "e" in given.lower() and not isinstance(value, bool) and not re.fullmatch(WITH_EXPONENT, given)
        return f"YAML reads {given} as text, not as a number; write {_written(value)}" if told else None
    wanted = "true or false" if isinstance(value, bool) else "a number"
    return f"Input should be {wanted}" if isinstance(given, bool) != isinstance(value, bool) else None


def _written(value: bool | int | float) -> str:
    """As YAML reads it: it wants a point in a number with an exponent, and a sign in the exponent."""
    text = json.dumps(value)
    if not isinstance(value, float) or "e" not in text:
        return text
    digits, exponent = text.split("e")
    return f"{digits if '.' in digits else digits + '.0'}e{int(exponent):+d}"


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
            message = WORDS.get(fault["type"], fault["msg"].removeprefix("Value error, "))
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


class Record(dict):
    """What a JSON file of the workflow holds; a key that it lacks is told with the file's name."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise ConfigError(f"{self.path}: lacks {key}; delete it and run the workflow again")


def read_spec(path: Path) -> dict[str, Any]:
    """A JSON file that the workflow wrote, such as the specification of a job; raises ConfigError naming it."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; the workflow writes it when it plans the job") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: a folder, where the workflow writes a file; move it away and run again") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON ({error}); delete it and run the workflow again") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: not a JSON object; delete it and run the workflow again")
    for key in ("values", "compute"):
        if not isinstance(found.get(key, {}), dict):
            raise ConfigError(
                f"{path}: {key} is not a section of keys and values; delete it and run the workflow again"
            )
    return Record(path, found)
