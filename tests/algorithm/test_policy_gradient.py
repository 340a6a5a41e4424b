import math

import pytest
import torch

from stages.algorithm.policy_gradient import (
    AGGREGATIONS,
    SURROGATES,
    aggregate,
    compute_grpo_clip_loss,
    compute_grpo_no_clip_loss,
    compute_naive_policy_gradient_loss,
    compute_policy_gradient_loss,
    grpo_microbatch_train_step,
    truncated_importance_weights,
)


def lengths_to_mask(lengths, width, first=0):
    """Row i is true at `lengths[i]` positions from `first` on."""
    positions = torch.arange(width)
    return torch.stack([(positions >= first) & (positions < first + length) for length in lengths])


# -- surrogates ------------------------------------------------------------------------------------------


def test_naive_loss_by_hand():
    rewards = torch.tensor([[2.0], [-1.0]])
    log_probs = torch.tensor([[-0.5, -1.0], [-2.0, -3.0]])
    assert compute_naive_policy_gradient_loss(rewards, log_probs).tolist() == [[1.0, 2.0], [-2.0, -3.0]]


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.5, 2.0, -2.4, True),  # likelier and good: the gain stops at 1.2
        (0.5, 2.0, -1.0, False),  # unlikelier and good: pulled back up, never clipped
        (0.5, -2.0, 1.6, True),  # unlikelier and bad: enough at 0.8
        (1.5, -2.0, 3.0, False),  # likelier and bad: pushed down, never clipped
        (1.1, 2.0, -2.2, False),  # inside the range
    ],
)
def test_clip_loss_in_all_four_quadrants(ratio, advantage, loss, clipped):
    old = torch.tensor([[-1.0]])
    policy = (old + math.log(ratio)).requires_grad_()
    got, metadata = compute_grpo_clip_loss(torch.tensor([[advantage]]), policy, old, cliprange=0.2)
    got.sum().backward()
    torch.testing.assert_close(got.item(), loss)
    torch.testing.assert_close(metadata["ratio"].item(), ratio)
    assert metadata["clipped"].item() is clipped
    torch.testing.assert_close(policy.grad.item(), 0.0 if clipped else -ratio * advantage)


def test_no_clip_loss_is_the_importance_weighted_advantage():
    old = torch.tensor([[-1.0, -1.0]])
    policy = (old + torch.tensor([[3.0, 0.25]]).log()).requires_grad_()
    loss, metadata = compute_grpo_no_clip_loss(torch.tensor([[2.0]]), policy, old)
    torch.testing.assert_close(loss, torch.tensor([[-6.0, -0.5]]))
    assert set(metadata) == {"ratio"}


@pytest.mark.parametrize("loss_type", ["grpo_clip", "grpo_no_clip"])
def test_on_policy_the_gradient_is_that_of_reinforce(loss_type):
    torch.manual_seed(0)
    policy, advantages = torch.randn(3, 5, requires_grad=True), torch.randn(3, 1)
    with torch.inference_mode():
        old = policy.clone()
    off, metadata = compute_policy_gradient_loss(
        policy, loss_type, advantages=advantages, old_log_probs=old, cliprange=0.2
    )
    on, _ = compute_policy_gradient_loss(policy, "reinforce_with_baseline", advantages=advantages)
    assert (metadata["ratio"] == 1).all()
    assert not metadata.get("clipped", torch.zeros(1)).any()
    assert torch.equal(*(torch.autograd.grad(loss.sum(), policy)[0] for loss in (off, on)))


@pytest.mark.parametrize("loss_type", ["grpo_clip", "grpo_no_clip"])
def test_no_gradient_runs_through_the_old_policy(loss_type):
    parameter = torch.zeros(1, 2, requires_grad=True)
    loss, _ = compute_policy_gradient_loss(
        parameter * 1.0,
        loss_type,
        advantages=torch.tensor([[2.0]]),
        old_log_probs=parameter * 1.0,  # the mistake: scored with a graph attached
        cliprange=0.2,
    )
    loss.sum().backward()
    assert parameter.grad.tolist() == [[-2.0, -2.0]]


def test_each_loss_type_reads_its_own_argument():
    arguments = {
        "raw_rewards": torch.tensor([[3.0]]),
        "advantages": torch.tensor([[5.0]]),
        "old_log_probs": torch.tensor([[-1.0]]),
        "cliprange": 0.2,
        "response_mask": torch.tensor([[True]]),
    }
    policy = torch.tensor([[-1.0]])
    losses = {name: compute_policy_gradient_loss(policy, name, **arguments)[0].item() for name in SURROGATES}
    assert losses == {
        "no_baseline": 3.0,
        "reinforce_with_baseline": 5.0,
        "grpo_clip": -5.0,
        "grpo_no_clip": -5.0,
        "gspo": -5.0,
        "cispo": 5.0,
    }


@pytest.mark.parametrize(
    ("loss_type", "missing"),
    [
        ("no_baseline", "raw_rewards"),
        ("reinforce_with_baseline", "advantages"),
        ("grpo_clip", "advantages, old_log_probs, cliprange"),
        ("grpo_no_clip", "advantages, old_log_probs"),
        ("gspo", "advantages, old_log_probs, cliprange, response_mask"),
        ("cispo", "advantages, old_log_probs, cliprange"),
    ],
)
def test_missing_arguments_are_all_named(loss_type, missing):
    with pytest.raises(ValueError, match=f"'{loss_type}' needs {missing}; got None"):
        compute_policy_gradient_loss(torch.zeros(2, 2), loss_type)


def test_wrong_shapes_and_names_are_refused():
    square = torch.zeros(2, 2)
    with pytest.raises(ValueError, match=r"advantages has shape \(2,\), expected \(2, 1\)"):
        compute_grpo_no_clip_loss(torch.ones(2), square, square)
    with pytest.raises(ValueError, match=r"old_log_probs has shape \(2, 1\)"):
        compute_grpo_clip_loss(torch.ones(2, 1), square, square[:, :1], 0.2)
    with pytest.raises(ValueError, match="'ppo' is unknown; choose one of no_baseline"):
        compute_policy_gradient_loss(square, "ppo")
    with pytest.raises(ValueError, match="'sum' is unknown; choose one of masked_mean"):
        aggregate(square, square, "sum", num_sequences=2, num_tokens=4)


@pytest.mark.parametrize("loss_type", list(SURROGATES))
def test_whatever_stands_in_the_padding_stays_out_of_the_gradient(loss_type):
    mask = torch.tensor([[True, True, False, False]])
    policy = torch.tensor([[-1.0, -2.0, 500.0, math.nan]], requires_grad=True)
    old = torch.tensor([[-1.0, -2.0, -500.0, math.inf]])
    value = torch.tensor([[1.0]])
    loss, metadata = grpo_microbatch_train_step(policy, mask, 1, loss_type, value, value, old, 0.2)
    assert torch.isfinite(loss)
    assert policy.grad.tolist() == [[-0.5, -0.5, 0.0, 0.0]]
    assert (metadata.get("ratio", torch.ones(1)) == 1).all()
    assert metadata.get("clip_fraction", torch.zeros(())) == 0.0


@pytest.mark.parametrize("advantage", [1.0, 0.0, -1.0])
def test_an_overflowing_ratio_of_a_response_token_gives_no_nan(advantage):
    policy = torch.tensor([[-1.0, -1.0]], requires_grad=True)
    old = torch.tensor([[-1.0, -300.0]])
    loss, _ = compute_grpo_clip_loss(torch.tensor([[advantage]]), policy, old, 0.2)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(policy.grad).all()


# -- aggregations ----------------------------------------------------------------------------------------


def test_length_normalisation_of_a_short_and_a_long_response():
    """Two responses of 4 and 7 tokens, ratio 1, advantage 2, constant 7 (Lambert, RLHF Book)."""
    mask = lengths_to_mask([4, 7], width=7)
    expected = {
        "masked_mean": ((2.0 + 2.0) / 2, 1 / 4, 1 / 7),
        "masked_normalize": ((8 / 7 + 2.0) / 2, 1 / 7, 1 / 7),
        "token_mean": (2.0, 2 / 11, 2 / 11),
    }
    for name, (value, short, long) in expected.items():
        ratio = torch.ones(2, 7, requires_grad=True)
        loss = aggregate(2 * ratio, mask, name, num_sequences=2, num_tokens=11, normalize_constant=7)
        loss.backward()
        torch.testing.assert_close(loss.item(), value)
        torch.testing.assert_close(ratio.grad[0], torch.tensor([short] * 4 + [0.0] * 3))
        torch.testing.assert_close(ratio.grad[1], torch.full((7,), long))


SPLITS = [[6], [1] * 6, [2, 4], [5, 1], [3, 2, 1]]


def batch_gradient(split, loss_type, length_normalization):
    """Gradient of a linear softmax policy over one optimiser batch, taken micro-batch by micro-batch."""
    torch.manual_seed(3)
    features, labels = torch.randn(6, 8, 5), torch.randint(7, (6, 8))
    mask = lengths_to_mask([8, 1, 3, 0, 6, 2], width=8)
    values, old = torch.randn(6, 1), -2 + 0.3 * torch.randn(6, 8)
    weight = torch.randn(5, 7, requires_grad=True)
    total = 0.0
    for rows in torch.arange(6).split(split):
        log_probs = torch.log_softmax(features[rows] @ weight, -1).gather(-1, labels[rows][..., None])[..., 0]
        per_token, _ = compute_policy_gradient_loss(
            log_probs, loss_type, values[rows], values[rows], old[rows], 0.2, mask[rows]
        )
        loss = aggregate(
            per_token,
            mask[rows],
            length_normalization,
            num_sequences=6,
            num_tokens=int(mask.sum()),
            normalize_constant=8,
        )
        loss.backward()
        total += loss.item()
    return total, weight.grad


@pytest.mark.parametrize("length_normalization", list(AGGREGATIONS))
@pytest.mark.parametrize("loss_type", list(SURROGATES))
def test_any_micro_batch_split_gives_the_same_loss_and_gradient(loss_type, length_normalization):
    whole_loss, whole = batch_gradient([6], loss_type, length_normalization)
    assert whole.abs().max() > 1e-3
    for split in SPLITS:
        loss, gradient = batch_gradient(split, loss_type, length_normalization)
        assert abs(loss - whole_loss) < 1e-6
        torch.testing.assert_close(gradient, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("length_normalization", list(AGGREGATIONS))
def test_left_and_right_padding_give_the_same_loss(length_normalization):
    torch.manual_seed(0)
    tokens, lengths, width = torch.randn(2, 4), [4, 2], 6
    losses = []
    for side in ("right", "left"):
        per_token, mask = torch.full((2, width), 99.0), torch.zeros(2, width, dtype=torch.bool)
        for row, length in enumerate(lengths):
            place = slice(0, length) if side == "right" else slice(width - length, width)
            per_token[row, place], mask[row, place] = tokens[row, :length], True
        losses.append(
            aggregate(per_token, mask, length_normalization, num_sequences=2, num_tokens=6, normalize_constant=4)
        )
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("length_normalization", list(AGGREGATIONS))
def test_a_batch_of_empty_responses_has_loss_and_gradient_zero(length_normalization):
    per_token = torch.randn(2, 3, requires_grad=True)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    loss = aggregate(per_token, mask, length_normalization, num_sequences=2, num_tokens=0, normalize_constant=3)
    loss.backward()
    assert loss.item() == 0.0
    assert per_token.grad.abs().sum() == 0.0


def test_what_dead_and_empty_responses_do_to_each_denominator():
    """One live response of 2 tokens with loss 1 each, one dead of 4 tokens, one empty."""
    per_token = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0] * 4, [0.0] * 4])
    mask = lengths_to_mask([2, 4, 0], width=4)
    arguments = {"num_sequences": 3, "num_tokens": 6, "normalize_constant": 4}
    losses = {name: aggregate(per_token, mask, name, **arguments).item() for name in AGGREGATIONS}
    assert losses == pytest.approx({"masked_mean": 1 / 3, "masked_normalize": 2 / 4 / 3, "token_mean": 2 / 6})
    # skipped in the forward pass, counted in the denominators: nothing changes
    skipped = {name: aggregate(per_token[:1], mask[:1], name, **arguments).item() for name in AGGREGATIONS}
    assert skipped == pytest.approx(losses)


@pytest.mark.parametrize("constant", [None, 0])
def test_masked_normalize_needs_its_constant(constant):
    with pytest.raises(ValueError, match="positive normalize_constant"):
        aggregate(
            torch.zeros(1, 1),
            torch.ones(1, 1),
            "masked_normalize",
            num_sequences=1,
            num_tokens=1,
            normalize_constant=constant,
        )


# -- the train step --------------------------------------------------------------------------------------


def test_train_step_by_hand():
    policy = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]], requires_grad=True)
    mask = lengths_to_mask([1, 2], width=3, first=1)
    loss, _ = grpo_microbatch_train_step(policy, mask, 2, "no_baseline", raw_rewards=torch.tensor([[1.0], [3.0]]))
    # response 1: 2.0; response 2: 3 * (5 + 6) / 2 = 16.5; mean 9.25; two accumulation steps
    assert loss.item() == 4.625
    assert policy.grad.tolist() == [[0.0, -0.25, 0.0], [0.0, -0.375, -0.375]]


def test_train_steps_accumulate_over_micro_batches_of_unequal_lengths():
    torch.manual_seed(0)
    policy, mask = torch.randn(4, 6, requires_grad=True), lengths_to_mask([6, 1, 2, 5], width=6)
    rewards = torch.randn(4, 1)
    for rows in (slice(0, 2), slice(2, 4)):
        grpo_microbatch_train_step(policy[rows], mask[rows], 2, "no_baseline", raw_rewards=rewards[rows])
    accumulated, policy.grad = policy.grad, None
    grpo_microbatch_train_step(policy, mask, 1, "no_baseline", raw_rewards=rewards)
    torch.testing.assert_close(accumulated, policy.grad, rtol=0, atol=1e-6)


def test_train_step_with_an_empty_response_counts_it_as_zero():
    policy, mask = torch.full((2, 2), -1.0, requires_grad=True), lengths_to_mask([2, 0], width=2)
    loss, metadata = grpo_microbatch_train_step(
        policy, mask, 1, "grpo_clip", None, torch.ones(2, 1), policy.detach() - 1.0, 0.2
    )
    torch.testing.assert_close(loss.item(), -0.6)
    assert metadata["clip_fraction"] == 1.0
    assert torch.isfinite(policy.grad).all()


# -- clip-higher, GSPO, CISPO --------------------------------------------------------------------------


def test_clip_higher_moves_the_upper_bound_alone():
    """Ratios 1.25 and 0.7 under eps = 0.2, eps_high = 0.28: the first is inside now, the second still clipped."""
    log_ratio = torch.tensor([[1.25, 0.7]]).log()
    old = torch.zeros(1, 2)
    up, down = torch.tensor([[1.0]]), torch.tensor([[-1.0]])
    plain, facts = compute_policy_gradient_loss(log_ratio, "grpo_clip", None, up, old, 0.2)
    higher, wider = compute_policy_gradient_loss(log_ratio, "grpo_clip", None, up, old, 0.2, cliprange_high=0.28)
    torch.testing.assert_close(plain, torch.tensor([[-1.2, -0.7]]))
    torch.testing.assert_close(higher, torch.tensor([[-1.25, -0.7]]))
    assert facts["clipped"].tolist() == [[True, False]]
    assert wider["clipped"].tolist() == [[False, False]]
    falling, _ = compute_policy_gradient_loss(log_ratio, "grpo_clip", None, down, old, 0.2, cliprange_high=0.28)
    torch.testing.assert_close(falling, torch.tensor([[1.25, 0.8]]))


def test_gspo_has_one_ratio_per_response_the_geometric_mean():
    """Ratios 1.21 and 1.0 over two tokens: s = 1.1; a third, masked position counts for nothing."""
    policy = torch.tensor([[1.21, 1.0, 9.0]]).log().requires_grad_()
    mask = torch.tensor([[True, True, False]])
    loss, facts = compute_policy_gradient_loss(
        policy, "gspo", None, torch.tensor([[2.0]]), torch.zeros(1, 3), 0.5, response_mask=mask
    )
    torch.testing.assert_close(facts["ratio"][0, :2], torch.tensor([1.1, 1.1]))
    torch.testing.assert_close(loss[0, :2], torch.tensor([-2.2, -2.2]))
    share = aggregate(loss, mask, "masked_mean", num_sequences=1, num_tokens=2)
    share.backward()
    # d(-s A)/d log pi_t = -s A / |o|, the same at every token of the response
    torch.testing.assert_close(policy.grad, torch.tensor([[-1.1, -1.1, 0.0]]))


def test_gspo_clips_whole_responses():
    policy = torch.tensor([[1.5, 1.5], [1.0, 1.0]]).log().requires_grad_()
    mask = torch.ones(2, 2, dtype=torch.bool)
    loss, facts = compute_policy_gradient_loss(
        policy, "gspo", None, torch.ones(2, 1), torch.zeros(2, 2), 0.2, response_mask=mask
    )
    assert facts["clipped"].tolist() == [[True, True], [False, False]]
    loss.sum().backward()
    assert policy.grad[0].tolist() == [0.0, 0.0]
    assert policy.grad[1].abs().min() > 0


def test_cispo_keeps_a_gradient_where_the_clip_would_drop_it():
    """-min(rho, 1 + eps) A log pi: at rho = 3 with eps = 0.2 the weight is 1.2 and the gradient -1.2 A."""
    policy = torch.tensor([[3.0, 0.5]]).log().requires_grad_()
    advantages, old = torch.tensor([[2.0]]), torch.zeros(1, 2)
    loss, facts = compute_policy_gradient_loss(policy, "cispo", None, advantages, old, 0.2)
    loss.sum().backward()
    torch.testing.assert_close(policy.grad, torch.tensor([[-2.4, -1.0]]))
    assert facts["clipped"].tolist() == [[True, False]]


@pytest.mark.parametrize("loss_type", ["grpo_clip", "grpo_no_clip", "gspo", "cispo"])
def test_at_ratio_one_every_off_policy_surrogate_is_reinforce(loss_type):
    torch.manual_seed(0)
    policy = torch.randn(3, 5).requires_grad_()
    advantages = torch.randn(3, 1)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])
    gradients = []
    for name in (loss_type, "reinforce_with_baseline"):
        policy.grad = None
        loss, _ = compute_policy_gradient_loss(
            policy, name, None, advantages, policy.detach().clone(), 0.2, response_mask=mask
        )
        aggregate(loss, mask, "masked_mean", num_sequences=3, num_tokens=9).backward()
        gradients.append(policy.grad.clone())
    torch.testing.assert_close(*gradients)


# -- the sampler's own distribution ----------------------------------------------------------------------


def test_importance_weights_by_hand():
    """Trainer over sampler 0.5 / 0.25, 0.2 / 0.4, 0.9 / 0.1, and equal, cut at 3."""
    old = torch.tensor([[0.5, 0.2], [0.9, 0.3]]).log().requires_grad_()
    sampler = torch.tensor([[0.25, 0.4], [0.1, 0.3]]).log()
    weights, cut = truncated_importance_weights(old, sampler, 3.0)
    torch.testing.assert_close(weights, torch.tensor([[2.0, 0.5], [3.0, 1.0]]))
    assert weights[1, 1].item() == 1.0
    assert cut.tolist() == [[False, False], [True, False]]
    assert not weights.requires_grad


def test_an_endless_ratio_is_the_cap_and_shapes_must_agree():
    weights, cut = truncated_importance_weights(torch.tensor([[0.0]]), torch.tensor([[-1000.0]]), 2.0)
    assert (weights.item(), cut.item()) == (2.0, True)
    with pytest.raises(ValueError, match=r"sampler_log_probs \(2, 1\)"):
        truncated_importance_weights(torch.zeros(2, 3), torch.zeros(2, 1), 2.0)


def test_weighted_samples_have_the_trainers_expectation():
    """Sum over the sampler's distribution of weight x value = sum over the trainer's, where nothing is cut."""
    trainer, sampler = torch.tensor([[0.6, 0.3, 0.1]]), torch.tensor([[0.5, 0.25, 0.25]])
    value = torch.tensor([[1.0, -2.0, 5.0]])
    weights, _ = truncated_importance_weights(trainer.log(), sampler.log(), 10.0)
    torch.testing.assert_close((sampler * weights * value).sum(), (trainer * value).sum())
