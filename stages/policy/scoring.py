"""Log-probabilities of responses under the trainer's policy, as a function with gradients.

Both paths score response positions alone: the head runs on them in chunks and dense logits [B, T, V] never exist.
`plain` runs each prompt with its response; `shared` runs each prompt once for all of its responses. Same values, same
gradients, up to the order of floating-point sums. Padding is on the right everywhere, where causal attention makes it
invisible to real tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stages.algorithm.log_probs import chunked_log_probs
from stages.policy.limits import window
from stages.policy.padding import right_pad
from stages.policy.readout import head_of, readout, states
from stages.policy.sharding import all_agree, within_forward
from stages.policy.shared_attention import Packing, shared_prompt_attention, supported
from stages.policy.shared_prompt import TrainingCache, common_prefix, run_prompts

# Float32 logits held at once. Smaller chunks make for thin matrix products, and each one rewrites the whole gradient of
# the head's weight; on a CPU larger ones save nothing.
CHUNK_BYTES = {"cpu": 24 * 2**20, "accelerator": 2**30}


@dataclass(frozen=True)
class Sequences:
    """A batch of N prompts and B = N * G responses to them, rows of one prompt adjacent.

    prompt_ids [N, P] and response_ids [B, T], right-padded; prompt_lengths [N]; response_mask [B, T], true at
    response tokens, end token included.
    """

    prompt_ids: Tensor
    prompt_lengths: Tensor
    response_ids: Tensor
    response_mask: Tensor

    @property
    def group_size(self) -> int:
        return len(self.response_ids) // len(self.prompt_ids)

    @cached_property
    def template(self) -> int:
        """How many tokens all prompts begin with."""
        return common_prefix(self.prompt_ids, self.prompt_lengths)


def make_sequences(
    prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], device: torch.device | str
) -> Sequences:
    """Pad N prompts and their N * G responses; prompt i belongs to responses i * G to (i + 1) * G."""
    prompt_ids, prompt_lengths = right_pad(prompts, 0, device)
    response_ids, lengths = right_pad(responses, 0, device)
    mask = torch.arange(response_ids.shape[1], device=device)[None] < lengths[:, None]
    return Sequences(prompt_ids, prompt_lengths, response_ids, mask)


def score(
    model: PreTrainedModel, batch: Sequences, *, temperature: float, shared: bool, with_entropy: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Per-token log-probs [B, T] in nats under softmax(logits / temperature), 0 at padding; and entropies, alike.

    `shared` asks for the shared path; where the model's attention is not for it, the plain one is taken.
    Gradients reach the model through the log-probs; the entropies carry none.
    """
    mask, shared = batch.response_mask, all_agree(model, shared and fits(model, batch))

    def forward() -> tuple[Tensor, Tensor | None]:
        head, after = head_of(model), readout(model)
        hidden = _shared_hidden(model, batch) if shared else _plain_hidden(model, batch)
        bias = getattr(head, "bias", None)
        return chunked_log_probs(
            hidden,
            head.weight if after.size == len(head.weight) else head.weight[: after.size],
            batch.response_ids[mask],
            bias=None if bias is None else bias[: after.size],
            scale=after.scale,
            softcap=after.softcap,
            temperature=temperature,
            chunk=chunk_rows(len(head.weight), hidden.device),
            with_entropy=with_entropy,
        )

    log_probs, entropy = within_forward(model, forward)
    padded = log_probs.new_zeros(mask.shape).masked_scatter(mask, log_probs)
    return padded, None if entropy is None else entropy.new_zeros(mask.shape).masked_scatter(mask, entropy)


def fits(model: PreTrainedModel, batch: Sequences) -> bool:
    """Whether the shared path is right for these sequences: all layers see all of them."""
    longest = batch.prompt_ids.shape[1] + batch.response_ids.shape[1]
    return supported(model) and longest <= window(model)


def template_pays(model: PreTrainedModel, batch: Sequences) -> bool:
    """Whether prompts with one response each are cheaper on the shared path: the template that they all begin with,
    which runs once there, is longer than what follows it."""
    rest = batch.prompt_ids.shape[1] - batch.template + batch.response_ids.shape[1]
    return fits(model, batch) and batch.template > rest


def chunk_rows(vocab_size: int, device: torch.device) -> int:
    """How many positions go through the head together: as many as fit the device's share of float32 logits."""
    return max(1, CHUNK_BYTES["cpu" if device.type == "cpu" else "accelerator"] // (4 * vocab_size))


def _plain_hidden(model: PreTrainedModel, batch: Sequences) -> Tensor:
    """Hidden states [n, H] that predict the n response tokens, row by row: those one position before each."""
    lengths = batch.prompt_lengths.repeat_interleave(batch.group_size)
    rows, width = batch.response_ids.shape
    prompts = batch.prompt_ids.repeat_interleave(batch.group_size, 0)
    joint = torch.cat([prompts, prompts.new_zeros(rows, width)], dim=1)
    positions = lengths[:, None] + torch.arange(width, device=joint.device)[None]
    joint = joint.scatter(1, positions, batch.response_ids)
    hidden, _ = states(model, input_ids=joint, use_cache=False)
    index = (positions - 1)[..., None].expand(-1, -1, hidden.shape[-1])
    return hidden.gather(1, index)[batch.response_mask]


def _shared_hidden(model: PreTrainedModel, batch: Sequences) -> Tensor:
    """The same, [n, H]: the first token is predicted by the prompt's last state, the others by the response's."""
    last, prompts = run_prompts(model, batch.prompt_ids, batch.prompt_lengths, batch.template)
    mask, rows = batch.response_mask, len(batch.response_ids)
    predicting = mask[:, 1:] if mask.shape[1] > 1 else mask  # those of one token run as well, for nothing: all_agree
    width = predicting.shape[1]
    lengths = batch.prompt_lengths.repeat_interleave(batch.group_size)
    positions = lengths[:, None] + torch.arange(width, device=last.device)[None]
    with shared_prompt_attention(model):
        rest, _ = states(
            model,
            input_ids=batch.response_ids[:, :width][predicting][None],
            position_ids=positions[predicting][None],
            past_key_values=TrainingCache(prompts, Packing(predicting)),
            use_cache=True,
        )
    place = torch.zeros_like(batch.response_ids)  # of each token's state, among the last of prompts, then the rest
    place[:, 0] = torch.arange(rows, device=last.device) // batch.group_size
    place[:, 1:][mask[:, 1:]] = len(last) + torch.arange(int(mask[:, 1:].sum()), device=last.device)
    return torch.cat([last, rest[0]]).index_select(0, place[mask])
