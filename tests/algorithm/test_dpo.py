import math

import torch

from stages.algorithm.dpo import dpo_loss, implicit_reward_margin


def test_loss_by_hand():
    # chosen gained 1 nat on the reference, rejected lost 1: margin 0.5 * 2 = 1
    arguments = [torch.tensor(value) for value in (-10.0, -13.0, -11.0, -12.0)]
    assert implicit_reward_margin(*arguments, beta=0.5).item() == 1.0
    torch.testing.assert_close(dpo_loss(*arguments, beta=0.5).item(), math.log(1 + math.exp(-1.0)))


def test_the_reference_itself_has_loss_log_two():
    chosen, rejected = torch.tensor([-3.0, -400.0]), torch.tensor([-90.0, -1.0])
    loss = dpo_loss(chosen, rejected, chosen, rejected, beta=0.1)
    torch.testing.assert_close(loss, torch.full((2,), math.log(2.0)))


def test_the_prompt_cancels():
    arguments = [torch.tensor(value) for value in (-10.0, -13.0, -11.0, -12.0)]
    prompt_policy, prompt_reference = -37.0, -41.0
    shifts = (prompt_policy, prompt_policy, prompt_reference, prompt_reference)
    with_prompt = [value + shift for value, shift in zip(arguments, shifts, strict=True)]
    torch.testing.assert_close(dpo_loss(*with_prompt, beta=0.5), dpo_loss(*arguments, beta=0.5))


def test_gradient_reaches_the_policy_alone_and_is_bounded():
    policy = [torch.tensor(value, requires_grad=True) for value in (-5000.0, -1.0)]
    reference = [torch.tensor(value, requires_grad=True) for value in (-1.0, -5000.0)]
    dpo_loss(*policy, *reference, beta=0.1).backward()
    # sigmoid(-margin) = 1: the gradient is -beta for the chosen and +beta for the rejected
    torch.testing.assert_close([p.grad.item() for p in policy], [-0.1, 0.1])
    assert [r.grad for r in reference] == [None, None]
