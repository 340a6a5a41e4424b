"""What evaluations and training stages can be told: one frozen, checked object each.

Names of hyper-parameters are those of the CS336 assignment-5 handout.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stages.origins import RewardName, RowKind
from stages.strict import Count, Fraction, Named, Positive, Rate, Strict

PromptName = Literal["r1_zero", "question_only", "alpaca", "zero_shot"]
REWARDS_OF: dict[str, tuple[str, ...]] = {
    "r1_zero": ("r1_zero",),
    "question_only": ("question_only",),
    "alpaca": ("question_only", "mmlu", "gsm8k", "none"),
    "zero_shot": ("mmlu", "gsm8k", "none"),
}
NEXT_QUERY = "# Query:"  # where a policy under the zero-shot prompt begins a new turn of its own
Schedule = Literal["constant", "linear", "cosine"]


# ---------------------------------------------------------------- sampling and evaluation


class Decoding(Strict):
    """How responses are sampled from a policy."""

    sampling_temperature: Annotated[float, Field(ge=0)] = 1.0
    sampling_min_tokens: Annotated[int, Field(ge=0)] = 4
    sampling_max_tokens: Positive = 1024
    sampling_batch_size: Positive = 128
    stop: tuple[Named, ...] = ("</answer>",)
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def fewest_tokens_fit(self) -> Decoding:
        if self.sampling_min_tokens > self.sampling_max_tokens:
            raise ValueError(
                f"sampling_min_tokens ({self.sampling_min_tokens}) exceeds sampling_max_tokens "
                f"({self.sampling_max_tokens})"
            )
        return self


class Sampled(Decoding):
    """Fields of everything that asks a policy questions and grades its answers."""

    prompt: PromptName = "r1_zero"
    reward: RewardName = "r1_zero"

    @model_validator(mode="after")
    def prompt_and_reward_together(self) -> Sampled:
        wanted = REWARDS_OF[self.prompt]
        if self.reward not in wanted:
            raise ValueError(
                f"prompt {self.prompt!r} is graded by reward {' or '.join(map(repr, wanted))}, not {self.reward!r}: "
                "that one looks for marks this prompt never asks for and would score zero throughout"
            )
        return self


class Evaluation(Sampled):
    """One policy on one dataset: sample, grade, count. `model`: the base policy, or an experiment, for its winner's.

    With reward `none` nothing is graded: the responses are for a judge. The benchmarks of instruction tuning (rewards
    `mmlu`, `gsm8k` and `none`) are decoded as the assignment's supplement wants, unless values say otherwise.
    """

    reward: RewardName | Literal["none"] = "r1_zero"
    dataset: str
    model: str = "base"
    num_examples: Count = "full"
    group_size: Positive = 1

    @model_validator(mode="before")
    @classmethod
    def benchmarks_are_greedy(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("reward") not in ("mmlu", "gsm8k", "none"):
            return values
        stop = {"zero_shot": (NEXT_QUERY,)}.get(values.get("prompt"), ())
        return {"sampling_temperature": 0.0, "sampling_min_tokens": 0, "stop": stop, **values}


# ---------------------------------------------------------------- training


class EarlyEnd(Strict):
    """When a run has failed: it ends there with the reason, which is its result. None switches a rule off.

    A loss or gradient that is not finite always ends a run. `token_entropy_below` (nats) is of sampled tokens: those of
    the newest rollouts, or, where training samples none, of the newest validation.
    """

    gradient_norm_above: Annotated[float, Field(gt=0)] | None = 1.0e3
    ratio_mean_above: Annotated[float, Field(gt=1)] | None = 10.0
    token_entropy_below: Annotated[float, Field(gt=0)] | None = None
    zero_reward_steps: Positive | None = 50


class Trained(Decoding):
    """Fields of everything that takes optimiser steps and validates as it goes.

    `start_from` names an earlier experiment, whose winner's checkpoint takes the place of the base policy. `rows` says
    what the datasets of the stage hold. With `share_prompts` the model runs what responses have in common once; the
    values are the same without.
    """

    rows: ClassVar[RowKind] = "questions"

    start_from: str | None = None
    train: str
    validation: str
    optimizer: Literal["adamw", "rmsprop"] = "adamw"
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
    share_prompts: bool = True
    early_end: EarlyEnd = EarlyEnd()


class FineTuned(Trained, Sampled):
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
        """The fine-tuning of one step; it starts from the policy that sampled."""
        own = set(ExpertIteration.model_fields) - set(FineTuned.model_fields) | {"start_from"}
        return Sft.model_validate(self.model_dump(exclude=own) | {"n_epochs": self.n_epochs})


class Grpo(Trained, Sampled):
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
    sampler_ratio_cap: Annotated[float, Field(gt=0)] | None = None
    max_sampling_rounds: Positive = 1
    question_order: Literal["shuffled", "file"] = "shuffled"

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
        if self.group_size == 1 and self.loss_type != "no_baseline":
            raise ValueError(
                "group_size 1 leaves every advantage at 0, since a reward is its own group's mean; give at least 2, or "
                "loss_type no_baseline"
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


class Aligned(Trained):
    """Fields of everything that trains on documents in the Alpaca template.

    A validation measures `num_validation_examples` documents or pairs, and greedily answers `num_generations` of their
    instructions, drawn at random, to be read. Micro-batches hold at most `micro_batch_tokens`, padded.
    """

    prompt: ClassVar[str] = "alpaca"

    num_examples: Count = "full"
    n_epochs: Positive = 1
    micro_batch_tokens: Positive = 16384
    num_generations: Annotated[int, Field(ge=0)] = 8
    eval_every: Positive = 50
    checkpoint_every: Positive = 50
    sampling_temperature: Annotated[float, Field(ge=0)] = 0.0
    sampling_min_tokens: Annotated[int, Field(ge=0)] = 0
    sampling_max_tokens: Positive = 256
    stop: tuple[Named, ...] = ()


class Instruct(Aligned):
    """Instruction tuning on packed documents: a batch is `train_batch_size` chunks of `seq_length` tokens."""

    rows: ClassVar[RowKind] = "instructions"

    learning_rate: Rate = 2.0e-5
    lr_schedule: Schedule = "cosine"
    warmup_fraction: Fraction = 0.03
    train_batch_size: Positive = 32
    seq_length: Positive = 512


class Dpo(Aligned):
    """Direct preference optimisation (arXiv 2305.18290). The policy that training starts from is the reference.

    Pairs with a document of more than `max_document_tokens` are left out.
    """

    rows: ClassVar[RowKind] = "preferences"

    optimizer: Literal["adamw", "rmsprop"] = "rmsprop"
    learning_rate: Rate = 1.0e-6
    beta: Annotated[float, Field(gt=0)] = 0.1
    train_batch_size: Positive = 64
    max_document_tokens: Positive = 2048


STAGES: dict[str, type[Trained]] = {
    "sft": Sft,
    "expert_iteration": ExpertIteration,
    "grpo": Grpo,
    "instruct": Instruct,
    "dpo": Dpo,
}
