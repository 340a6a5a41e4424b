"""The adapters keep the names and the argument order by which the assignment's own test files call them."""

import inspect
import math
from types import SimpleNamespace

import pytest
import torch

from tests import adapters

SIGNATURES = {
    "run_tokenize_prompt_and_output": "prompt_strs output_strs tokenizer",
    "run_compute_group_normalized_rewards": (
        "reward_fn rollout_responses repeated_ground_truths group_size advantage_eps normalize_by_std"
    ),
    "run_compute_entropy": "logits",
    "run_get_response_log_probs": "model input_ids labels return_token_entropy",
    "run_compute_naive_policy_gradient_loss": "raw_rewards_or_advantages policy_log_probs",
    "run_compute_grpo_clip_loss": "advantages policy_log_probs old_log_probs cliprange",
    "run_compute_policy_gradient_loss": ("policy_log_probs loss_type raw_rewards advantages old_log_probs cliprange"),
    "run_masked_mean": "tensor mask dim",
    "run_sft_microbatch_train_step": ("policy_log_probs response_mask gradient_accumulation_steps normalize_constant"),
    "run_grpo_microbatch_train_step": (
        "policy_log_probs response_mask gradient_accumulation_steps loss_type "
        "raw_rewards advantages old_log_probs cliprange"
    ),
    "run_masked_normalize": "tensor mask dim normalize_constant",
    "get_packed_sft_dataset": "tokenizer dataset_path seq_length shuffle",
    "run_iterate_batches": "dataset batch_size shuffle",
    "run_parse_mmlu_response": "mmlu_example model_output",
    "run_parse_gsm8k_response": "model_output",
    "run_compute_per_instance_dpo_loss": "lm lm_ref tokenizer beta prompt response_chosen response_rejected",
}


def test_there_are_sixteen_adapters_with_the_assignments_signatures():
    defined = {name: value for name, value in vars(adapters).items() if inspect.isfunction(value)}
    assert {name: " ".join(inspect.signature(value).parameters) for name, value in defined.items()} == SIGNATURES
    assert len(SIGNATURES) == 16


LOG_PROBS = torch.tensor([[-1.0, -2.0]])
MASK = torch.tensor([[True, False]])
ONE = torch.tensor([[1.0]])


class Characters:
    pad_token_id, eos_token_id = 0, 1

    def encode(self, text, add_special_tokens=True):
        return [ord(character) for character in text]


def uniform_model(input_ids):
    return SimpleNamespace(logits=torch.zeros(*input_ids.shape, 4))


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("run_compute_entropy", (torch.zeros(4),), lambda out: out.item() == pytest.approx(math.log(4))),
        ("run_masked_mean", (LOG_PROBS, MASK), lambda out: out == -1),
        ("run_masked_normalize", (LOG_PROBS, MASK, 1, 2.0), lambda out: out == -0.5),
        ("run_compute_naive_policy_gradient_loss", (ONE, LOG_PROBS), lambda out: out.tolist() == [[1, 2]]),
        ("run_compute_grpo_clip_loss", (ONE, LOG_PROBS, LOG_PROBS, 0.1), lambda out: (out[0] == -1).all()),
        (
            "run_compute_policy_gradient_loss",
            (LOG_PROBS, "no_baseline", ONE, 2 * ONE, LOG_PROBS, 0.1),
            lambda out: out[0].tolist() == [[1, 2]],
        ),
        (
            "run_compute_group_normalized_rewards",
            (
                lambda response, truth: {"reward": float(response == truth)},
                ["1", "2"],
                ["1", "1"],
                2,
                0.0,
                False,
            ),
            lambda out: out[0].tolist() == [0.5, -0.5] and out[1].tolist() == [1, 0],
        ),
        (
            "run_get_response_log_probs",
            (uniform_model, torch.zeros(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64), True),
            lambda out: torch.allclose(out["log_probs"], -out["token_entropy"]),
        ),
        (
            "run_tokenize_prompt_and_output",
            (["a"], ["bc"], Characters()),
            lambda out: out["response_mask"].tolist() == [[True, True]],
        ),
        ("run_parse_gsm8k_response", ("She sold 15 clips.",), lambda out: out == "15"),
        ("run_parse_gsm8k_response", ("no number",), lambda out: out is None),
        (
            "run_parse_mmlu_response",
            (
                {"subject": "s", "question": "q", "options": ["w", "x", "y", "z"], "answer": "B"},
                "The correct answer is B.",
            ),
            lambda out: out == "B",
        ),
    ],
)
def test_each_adapter_reaches_its_function(name, arguments, result):
    assert result(getattr(adapters, name)(*arguments))


@pytest.mark.parametrize("name", ["run_sft_microbatch_train_step", "run_grpo_microbatch_train_step"])
def test_train_step_adapters_call_backward(name):
    policy = LOG_PROBS.clone().requires_grad_()
    further = () if "sft" in name else ("no_baseline", ONE)
    loss, _ = getattr(adapters, name)(policy, MASK, 2, *further)
    assert loss.item() == 0.5
    assert policy.grad.tolist() == [[-0.5, 0.0]]


def test_packing_adapters_make_batches(tmp_path):
    path = tmp_path / "sft.jsonl"
    path.write_text('{"prompt": "p", "response": "r"}\n')
    dataset = adapters.get_packed_sft_dataset(Characters(), path, 16, False)
    batches = adapters.run_iterate_batches(dataset, 4, True)
    assert len(batches) == math.ceil(len(dataset) / 4) > 1
