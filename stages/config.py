"""What every stage can be told: one frozen, validated object per stage.

Names of hyper-parameters are those of the CS336 assignment-5 handout. Nothing here imports torch, so the workflow
validates each run when it is planned; the stage validates the same object again when it starts.
"""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

Model = TypeVar("Model", bound=BaseModel)
PromptName = Literal["r1_zero", "question_only"]
RewardName = Literal["r1_zero", "question_only"]
Schedule = Literal["constant", "linear", "cosine"]
Positive = Annotated[int, Field(gt=0)]
Count = Positive | Literal["full"]
Rate = Annotated[float, Field(ge=0, lt=float("inf"))]
Fraction = Annotated[float, Field(ge=0, le=1)]


class ConfigError(ValueError):
    """A value that cannot work. The message is one readable text naming the key."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


# ---------------------------------------------------------------- models


class Pretrain(Strict):
    """A small Qwen2-architecture policy, trained here on generated arithmetic text."""

    hidden_size: Positive = 128
    num_layers: Positive = 4
    num_heads: Positive = 4
    vocab_size: Positive = 512
    context_length: Positive = 512
    n_steps: Positive = 900
    sequences_per_step: Positive = 24
    sequence_length: Positive = 192
    learning_rate: Rate = 3.0e-3
    wrong_step_fraction: Fraction = 0.2
    bare_question_fraction: Fraction = 0.8
    checkpoint_every: Positive = 100
    seed: int = 0

    @model_validator(mode="after")
    def heads_divide(self) -> Pretrain:
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size ({self.hidden_size}) must be a multiple of num_heads ({self.num_heads})")
        return self


class ModelSource(Strict):
    """Where the base policy comes from: exactly one of `pretrain`, `path` (a local folder), `hub` (an id)."""

    pretrain: Pretrain | None = None
    path: str | None = None
    hub: str | None = None
    revision: str | None = None

    @model_validator(mode="after")
    def exactly_one(self) -> ModelSource:
        given = [key for key in ("pretrain", "path", "hub") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of pretrain, path, hub (got {', '.join(given) or 'none'})")
        return self


# ---------------------------------------------------------------- data


class Arithmetic(Strict):
    """Generated word problems. The split is decided by a hash of the question, so splits never share one."""

    source: Literal["arithmetic"]
    split: Literal["train", "validation"]
    size: Positive
    seed: int = 0


class ArithmeticTraces(Strict):
    """Worked solutions of train-split problems in r1_zero form; `wrong_fraction` of them end in a wrong answer."""

    source: Literal["arithmetic_traces"]
    size: Positive
    wrong_fraction: Fraction = 0.3
    seed: int = 0


class JsonLines(Strict):
    """The user's own file, one JSON object per line; values name the fields to read."""

    source: Literal["jsonl"]
    path: str
    question: str = "question"
    answer: str = "answer"
    response: str | None = None


class DatasetFiles(Strict):
    """Rows of a local file, JSON Lines or Parquet (`path`), or of a Hub dataset (`hub`, an id) at a pinned `revision`.

    Of a Hub dataset, `file` names one file, or `split` (with `config`, where it has several) the files of a split.
    """

    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    config: str | None = None
    split: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def one_origin(self) -> DatasetFiles:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give exactly one of path (a local file) and hub (the id of a Hub dataset)")
        return self

    @model_validator(mode="after")
    def hub_is_pinned(self) -> DatasetFiles:
        stray = [key for key in ("revision", "config", "split", "file") if getattr(self, key) is not None]
        if self.hub is None:
            if stray:
                raise ValueError(f"{', '.join(stray)} can only be given together with hub")
            return self
        if not re.fullmatch(r"[0-9a-f]{40}", self.revision or ""):
            raise ValueError(
                "hub needs revision, the commit that pins the data: 40 hexadecimal digits, as the dataset's page "
                f"shows them in its history (got {self.revision!r}; a branch or tag may move)"
            )
        if (self.file is None) == (self.split is None):
            raise ValueError("hub needs exactly one of file (a name in the dataset) and split (such as train)")
        if self.file is not None and self.config is not None:
            raise ValueError("config belongs to split; a file is named by its whole path in the dataset")
        return self


class Gsm8k(DatasetFiles):
    """GSM8K's own files: `question`, and `answer` ending in `#### <number>`."""

    source: Literal["gsm8k"]


class MathStyle(DatasetFiles):
    """MATH-style rows: `problem`, `answer` or a `solution` that ends in a box, perhaps a `level` to choose by.

    With `responses`, the solutions serve fine-tuning.
    """

    source: Literal["math"]
    levels: tuple[Positive, ...] | None = None
    responses: bool = False


class Tulu3(DatasetFiles):
    """Tulu 3 SFT Math rows: `messages` of a user's question and an assistant's solution."""

    source: Literal["tulu3"]


class DartMath(DatasetFiles):
    """DART-Math rows: `query` and `response`."""

    source: Literal["dart_math"]


class Countdown(DatasetFiles):
    """Countdown problems: rows of `nums` and `target`, or, without path and hub, `size` generated ones.

    `part` keeps those that a hash of numbers and target puts there, so that two parts never share a problem.
    """

    source: Literal["countdown"]
    part: Literal["train", "validation"] | None = None
    size: Positive | None = None
    seed: int = 0
    n_numbers: Annotated[int, Field(ge=2, le=6)] = 3

    @model_validator(mode="after")
    def one_origin(self) -> Countdown:
        if self.path is not None and self.hub is not None:
            raise ValueError("give path (a local file) or hub (the id of a Hub dataset), not both")
        if self.path is None and self.hub is None:
            if self.size is None:
                raise ValueError("give size, the number of problems to generate, or path or hub to read them from")
        elif (self.seed, self.n_numbers) != (0, 3):
            raise ValueError("seed and n_numbers shape generated problems; these are read from a file")
        return self


class ReasoningGym(Strict):
    """Generated questions of one Reasoning Gym dataset; a hash of the question decides the split."""

    source: Literal["reasoning_gym"]
    dataset: str
    split: Literal["train", "validation"]
    size: Positive
    seed: int = 0


class Curated(Strict):
    """Those examples of another dataset whose `response` is graded correct."""

    source: Literal["curated"]
    dataset: str
    reward: RewardName = "r1_zero"


DataSource = Annotated[
    Arithmetic
    | ArithmeticTraces
    | JsonLines
    | Gsm8k
    | MathStyle
    | Tulu3
    | DartMath
    | Countdown
    | ReasoningGym
    | Curated,
    Field(discriminator="source"),
]


# ---------------------------------------------------------------- sampling and evaluation


class Sampled(Strict):
    """Fields of everything that samples from a policy."""

    prompt: PromptName = "r1_zero"
    reward: RewardName = "r1_zero"
    sampling_temperature: Annotated[float, Field(ge=0)] = 1.0
    sampling_min_tokens: Annotated[int, Field(ge=0)] = 4
    sampling_max_tokens: Positive = 1024
    sampling_batch_size: Positive = 128
    stop: tuple[str, ...] = ("</answer>",)
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def prompt_and_reward_together(self) -> Sampled:
        if self.prompt != self.reward:
            raise ValueError(
                f"prompt {self.prompt!r} is graded by reward {self.prompt!r}, not {self.reward!r}: the other one "
                "looks for marks this prompt never asks for and would score zero throughout"
            )
        if self.sampling_min_tokens > self.sampling_max_tokens:
            raise ValueError(
                f"sampling_min_tokens ({self.sampling_min_tokens}) exceeds sampling_max_tokens "
                f"({self.sampling_max_tokens})"
            )
        return self


class Evaluation(Sampled):
    """One policy on one dataset: sample, grade, count."""

    dataset: str
    model: str = "base"
    num_examples: Count = "full"
    group_size: Positive = 1


# ---------------------------------------------------------------- training


class EarlyEnd(Strict):
    """When a run has failed: it ends there with the reason, which is its result. None switches a rule off.

    A loss or gradient that is not finite always ends a run.
    """

    gradient_norm_above: Annotated[float, Field(gt=0)] | None = 1.0e3
    ratio_mean_above: Annotated[float, Field(gt=1)] | None = 10.0
    token_entropy_below: Annotated[float, Field(gt=0)] | None = None
    zero_reward_steps: Positive | None = 50


class Trained(Sampled):
    """Fields of everything that takes optimiser steps and validates as it goes."""

    train: str
    validation: str
    learning_rate: Rate = 1.0e-5
    lr_schedule: Schedule = "constant"
    warmup_fraction: Fraction = 0.0
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    weight_decay: Rate = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    train_batch_size: Positive = 256
    eval_every: Positive = 5
    num_validation_examples: Count = 1024
    checkpoint_every: Positive = 10
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    early_end: EarlyEnd = EarlyEnd()


class FineTuned(Trained):
    """Fields of everything that imitates worked responses. Micro-batches hold at most that many tokens, padded."""

    train_batch_size: Positive = 32
    micro_batch_tokens: Positive = 16384


class Sft(FineTuned):
    """Supervised fine-tuning, Algorithm 1.

    Length is `n_sft_steps`, the same whatever `num_examples` is, unless `n_epochs` says how often to see each example.
    """

    num_examples: Count = "full"
    n_sft_steps: Positive = 100
    n_epochs: Positive | None = None


class ExpertIteration(FineTuned):
    """Expert iteration, Algorithm 2: per step, `group_size` responses to each of `question_batch_size` questions are
    sampled, and the policy is fine-tuned for `n_epochs` on those that are right."""

    n_ei_steps: Positive = 5
    group_size: Positive = 4
    question_batch_size: Count = 512
    n_epochs: Positive = 1
    remove_duplicates: bool = False

    def round_of_sft(self) -> Sft:
        """The fine-tuning of one step."""
        own = set(ExpertIteration.model_fields) - set(FineTuned.model_fields)
        return Sft.model_validate(self.model_dump(exclude=own) | {"n_epochs": self.n_epochs})


class Grpo(Trained):
    """GRPO, Algorithm 3; starter values of the handout's section 7.2."""

    n_grpo_steps: Positive = 200
    rollout_batch_size: Positive = 256
    group_size: Positive = 8
    epochs_per_rollout_batch: Positive = 1
    gradient_accumulation_steps: Positive = 128
    loss_type: Literal["no_baseline", "reinforce_with_baseline", "grpo_clip", "grpo_no_clip", "gspo", "cispo"] = (
        "reinforce_with_baseline"
    )
    length_normalization: Literal["masked_mean", "masked_normalize", "token_mean"] = "masked_mean"
    normalize_constant: Annotated[float, Field(gt=0)] | None = None
    use_std_normalization: bool = True
    advantage_eps: Annotated[float, Field(gt=0)] = 1.0e-6
    cliprange: Annotated[float, Field(gt=0)] = 0.2
    cliprange_high: Annotated[float, Field(gt=0)] | None = None
    training_reward: Literal["answer", "format", "random"] = "answer"
    max_sampling_rounds: Positive = 1
    share_prompts: bool = True

    @model_validator(mode="after")
    def batch_arithmetic(self) -> Grpo:
        """The asserts of the handout, section 7.2."""
        if self.train_batch_size % self.gradient_accumulation_steps:
            raise ValueError(
                f"train_batch_size ({self.train_batch_size}) must be divisible by gradient_accumulation_steps "
                f"({self.gradient_accumulation_steps})"
            )
        if self.rollout_batch_size % self.group_size:
            raise ValueError(
                f"rollout_batch_size ({self.rollout_batch_size}) must be divisible by group_size ({self.group_size})"
            )
        if self.train_batch_size < self.group_size:
            raise ValueError(
                f"train_batch_size ({self.train_batch_size}) must be at least group_size ({self.group_size})"
            )
        if self.rollout_batch_size % self.train_batch_size:
            raise ValueError(
                f"rollout_batch_size ({self.rollout_batch_size}) must be divisible by train_batch_size "
                f"({self.train_batch_size}), so that every rollout is trained on in every epoch"
            )
        if self.sampling_temperature == 0:
            raise ValueError("sampling_temperature must be above 0: greedy rollouts of a group are all the same")
        return self

    @property
    def n_prompts_per_rollout_batch(self) -> int:
        return self.rollout_batch_size // self.group_size

    @property
    def n_train_steps_per_rollout_batch(self) -> int:
        return self.epochs_per_rollout_batch * (self.rollout_batch_size // self.train_batch_size)

    @property
    def micro_train_batch_size(self) -> int:
        return self.train_batch_size // self.gradient_accumulation_steps


STAGES: dict[str, type[Trained]] = {"sft": Sft, "expert_iteration": ExpertIteration, "grpo": Grpo}


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


def parse_source(values: dict[str, Any], where: str) -> Any:
    """`values` as one of the data sources."""
    try:
        return TypeAdapter(DataSource).validate_python(values)
    except ValidationError as error:
        raise ConfigError(explain(error, where, None)) from None


def read_spec(path: Path) -> dict[str, Any]:
    """The JSON specification of a job, written when it was planned."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; the workflow writes it when it plans the job") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON ({error}); delete it and run the workflow again") from None
