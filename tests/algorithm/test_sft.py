import torch

from stages.algorithm.sft import sft_loss, sft_microbatch_train_step

LOG_PROBS = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]])
MASK = torch.tensor([[False, True, False], [True, True, True]])


def test_train_step_by_hand_and_without_zeroing():
    policy = LOG_PROBS.clone().requires_grad_()
    for calls in (1, 2):
        loss, metadata = sft_microbatch_train_step(policy, MASK, 2, normalize_constant=5.0)
        # (2 / 5 + 15 / 5) / 2 responses / 2 accumulation steps
        torch.testing.assert_close(loss.item(), 0.85)
        torch.testing.assert_close(policy.grad, -calls * MASK / 20.0)
    assert metadata["num_response_tokens"] == 4
    assert metadata["nll_sum"] == 17.0


def test_the_loss_of_a_batch_is_its_mean_over_tokens_however_it_is_split():
    policy = LOG_PROBS.clone().requires_grad_()
    whole = sft_loss(policy, MASK, num_tokens=4)
    parts = [sft_loss(policy[row : row + 1], MASK[row : row + 1], num_tokens=4) for row in (0, 1)]
    assert whole.item() == 17.0 / 4
    torch.testing.assert_close(sum(parts), whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.autograd.grad(whole, policy)[0], MASK / -4.0)


def test_a_batch_without_response_tokens_has_loss_and_gradient_zero():
    policy = LOG_PROBS.clone().requires_grad_()
    loss = sft_loss(policy, torch.zeros_like(MASK), num_tokens=0)
    loss.backward()
    assert loss.item() == 0.0
    assert policy.grad.abs().sum() == 0.0
