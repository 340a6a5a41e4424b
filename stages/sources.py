"""Where policies and datasets come from: one frozen, checked object per kind of source."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from stages.benchmarks import AlpacaEval, Mmlu, SimpleSafetyTests
from stages.origins import DatasetFiles, ReadSource, RewardName, RowKind, Source, refuse_moving
from stages.strict import ConfigError, Fraction, Named, Positive, Rate, Strict, explain

# ---------------------------------------------------------------- models


class Pretrain(Strict):
    """A small Qwen2-architecture policy, trained here on generated arithmetic text."""

    hidden_size: Positive = 128
    num_layers: Positive = 4
    num_heads: Positive = 4
    vocab_size: Positive = 512
    context_length: Positive = 512
    n_steps: Positive = 1200
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
    """Where the base policy comes from: exactly one of `shipped` (one that comes with the project), `pretrain` (made
    here), `path` (a local folder), `hub` (an id)."""

    shipped: Literal["tiny"] | None = None
    pretrain: Pretrain | None = None
    path: Named | None = None
    hub: Named | None = None
    revision: Named | None = None

    @model_validator(mode="after")
    def exactly_one(self) -> ModelSource:
        given = [key for key in ("shipped", "pretrain", "path", "hub") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of shipped, pretrain, path, hub (got {', '.join(given) or 'none'})")
        return self

    @model_validator(mode="after")
    def hub_is_pinned(self) -> ModelSource:
        if self.hub is None and self.revision is not None:
            raise ValueError("revision can only be given together with hub")
        if self.hub is not None:
            refuse_moving(self.revision, "the model")
        return self


# ---------------------------------------------------------------- data


class Arithmetic(Source):
    """Generated word problems. The split is decided by a hash of the question, so splits never share one."""

    source: Literal["arithmetic"]
    split: Literal["train", "validation", "test"]
    size: Positive
    seed: int = 0


class ArithmeticTraces(Source):
    """Worked solutions of train-split problems in r1_zero form; `wrong_fraction` of them end in a wrong answer."""

    source: Literal["arithmetic_traces"]
    size: Positive
    wrong_fraction: Fraction = 0.3
    seed: int = 0


class JsonLines(DatasetFiles):
    """Questions of your own; values name the fields to read."""

    has_baseline: ClassVar[bool] = True

    source: Literal["jsonl"]
    question: Named = "question"
    answer: Named | None = Field("answer", description="Its field; null takes what stands in the response's <answer>.")
    response: Named | None = None
    rendered: Literal["r1_zero", "alpaca", "zero_shot"] | None = Field(
        None, description="The prompt that the field `question` has around it already; the question is cut out of it."
    )

    @model_validator(mode="after")
    def answer_has_a_field(self) -> JsonLines:
        if self.answer is None and self.response is None:
            raise ValueError("answer: null takes the answer from the response; name the field of responses")
        return self


class Gsm8k(DatasetFiles):
    """GSM8K's own files: `question`, and `answer` ending in `#### <number>`.

    `question_form: zero_shot` asks in the form of the assignment's zero-shot prompt, which ends in "Answer:".
    """

    source: Literal["gsm8k"]
    question_form: Literal["bare", "zero_shot"] = "bare"


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

    rewards: ClassVar[tuple[RewardName, ...]] = ("r1_zero", "question_only")  # a verifier checks what they find

    source: Literal["countdown"]
    part: Literal["train", "validation", "test"] | None = None
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


class ReasoningGym(Source):
    """Generated questions of one Reasoning Gym dataset; a hash of the question decides the split."""

    rewards: ClassVar[tuple[RewardName, ...]] = ("r1_zero", "question_only")  # a verifier checks what they find

    source: Literal["reasoning_gym"]
    dataset: str
    split: Literal["train", "validation", "test"]
    size: Positive
    seed: int = 0


class ArithmeticInstructions(Source):
    """Problems of a split as instructions, with worked answers; `wrong_fraction` of them end in a wrong one."""

    rows: ClassVar[RowKind] = "instructions"

    source: Literal["arithmetic_instructions"]
    split: Literal["train", "validation", "test"]
    size: Positive
    wrong_fraction: Fraction = 0.0
    seed: int = 0


class ArithmeticPreferences(Source):
    """Problems of a split with two worked answers each: the right one is preferred to one with a wrong step."""

    rows: ClassVar[RowKind] = "preferences"

    source: Literal["arithmetic_preferences"]
    split: Literal["train", "validation", "test"]
    size: Positive
    seed: int = 0


class Chat(DatasetFiles):
    """Instruction data: rows of a `prompt` and a `response` (fields of these names or others), or, where `messages`
    names a field, chats, of which the first question and its answer are taken.

    What else the response rests on, a system's message or field and Alpaca's `input`, is kept in the prompt.
    """

    rows: ClassVar[RowKind] = "instructions"

    source: Literal["chat"]
    prompt: Named = "prompt"
    response: Named = "response"
    messages: Named | None = None
    context: Literal["keep", "leave_out"] = Field(
        "keep",
        description="What to do with a row's system message, its fields `system` and `input`: they stand before and "
        "after the prompt, a blank line between, or are left out and counted.",
    )


HhSubset = Literal["harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled"]


class HhPreferences(ReadSource):
    """Anthropic's HH transcripts of one turn (arXiv 2204.05862), from a folder (`path`) or the Hub (`hub`, `revision`).

    A subset is the file `<subset>.jsonl[.gz]` or `<subset>/<split>.jsonl[.gz]`. `part` keeps the pairs that a hash of
    their prompt puts there, one prompt in 32 for validation, so that parts of one split never share a prompt.
    """

    rows: ClassVar[RowKind] = "preferences"

    source: Literal["hh"]
    path: Named | None = None
    hub: Named | None = None
    revision: Named | None = None
    split: Literal["train", "test"] = "train"
    subsets: Annotated[tuple[HhSubset, ...], Field(min_length=1)] = get_args(HhSubset)
    part: Literal["train", "validation"] | None = None

    @model_validator(mode="after")
    def one_origin(self) -> HhPreferences:
        if self.path is None:
            self.file_of(self.subsets[0])
        elif self.hub is not None or self.revision is not None:
            raise ValueError("give path (a local folder) or hub with revision, not both")
        return self

    def file_of(self, subset: str) -> DatasetFiles:
        """The Hub's file of a subset."""
        return DatasetFiles(hub=self.hub, revision=self.revision, file=f"{subset}/{self.split}.jsonl.gz")


class Pairs(DatasetFiles):
    """Preferences of your own: rows of a `prompt`, a `chosen` and a `rejected` response (fields of these names or
    others), as text, or as chats of one exchange. A system's message and fields `system` and `input` are kept in the
    prompt."""

    rows: ClassVar[RowKind] = "preferences"

    source: Literal["pairs"]
    prompt: Named = "prompt"
    chosen: Named = "chosen"
    rejected: Named = "rejected"


class Curated(Source):
    """Those examples of another dataset whose `response` is graded correct."""

    source: Literal["curated"]
    dataset: str
    reward: RewardName = "r1_zero"


class PassRate(Source):
    """Those questions of an evaluation that the policy sometimes gets right: share of right responses within bounds.

    They come easiest first, which is a curriculum for training with `question_order: file`.
    """

    rewards: ClassVar[tuple[RewardName, ...]] = get_args(RewardName)  # that of its evaluation

    source: Literal["pass_rate"]
    evaluation: str
    at_least: Fraction = 0.0
    at_most: Fraction = 1.0

    @model_validator(mode="after")
    def bounds_in_order(self) -> PassRate:
        if self.at_least > self.at_most:
            raise ValueError(f"at_least ({self.at_least}) exceeds at_most ({self.at_most})")
        return self


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
    | ArithmeticInstructions
    | ArithmeticPreferences
    | Chat
    | HhPreferences
    | Pairs
    | Mmlu
    | AlpacaEval
    | SimpleSafetyTests
    | Curated
    | PassRate,
    Field(discriminator="source"),
]


def parse_source(values: dict[str, Any], where: str) -> Any:
    """`values` as one of the data sources."""
    try:
        return TypeAdapter(DataSource).validate_python(values)
    except ValidationError as error:
        raise ConfigError(explain(error, where, None)) from None
