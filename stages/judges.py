"""What a judge can be told: a policy that decides about responses where no answer is right."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from stages.config import Decoding
from stages.hardware import Compute
from stages.sources import ModelSource
from stages.strict import Positive

JudgePrompt = Literal["alpaca_eval", "simple_safety_tests"]


class Deciding(Decoding):
    """A judge's policy, and how its verdicts are sampled: greedily, with room for a reason."""

    model: ModelSource
    sampling_temperature: Annotated[float, Field(ge=0)] = 0.0
    sampling_min_tokens: Annotated[int, Field(ge=0)] = 0
    sampling_max_tokens: Positive = 512
    stop: tuple[str, ...] = ()

    @model_validator(mode="after")
    def model_is_there(self) -> Deciding:
        if self.model.path is None and self.model.hub is None:
            raise ValueError(
                "a judge is neither shipped nor pretrained; give model: {path: folder} or {hub: id, revision: …}"
            )
        return self


class Judging(Deciding):
    """One judge on one evaluation."""

    prompt: JudgePrompt


class Judge(Deciding):
    """One entry of `judges`: which evaluations it decides, and by which prompt.

    `compute` is that of the config unless it is given: a judge is often larger than what it judges.
    """

    evaluations: Annotated[dict[str, JudgePrompt], Field(min_length=1)]
    compute: Compute | None = None
