"""Hard attention: properties of every choice, and the score-function gradient against exact enumeration."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from attncourse.attention import (
    AdditiveScore,
    DotScore,
    HardAttention,
    MovingAverage,
    attend,
    entropy,
    log_probability,
    reward_to_go,
    score_function_loss,
)
from attncourse.attention.hard import CHOICES, one_hot

HARD = [choice for choice in CHOICES if choice != "expectation"]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def build(choice, dtype=torch.float64, training=True, **options):
    torch.manual_seed(0)
    return HardAttention(AdditiveScore(4, 5, 6), choice, **options).to(dtype).train(training)


def read(attention, dtype=torch.float64, batch=2, keys=7, mask=None, seed=5, **moved):
    """A reading with the global generator at a known place."""
    key, value = data(batch, keys, 5, seed=2, dtype=dtype), data(batch, keys, 3, seed=3, dtype=dtype)
    torch.manual_seed(seed)
    query = data(batch, 3, 4, dtype=dtype)
    return attention(query, moved.get("key", key), moved.get("value", value), mask=mask)


# --- Properties of every choice ----------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_context_is_what_the_weights_read(choice, training):
    """context = weights @ value; alpha is the softmax of the scores, whatever was chosen."""
    attention = build(choice, training=training)
    found = read(attention)
    soft = attend(data(2, 3, 4), data(2, 7, 5, seed=2), data(2, 7, 3, seed=3), score=attention.score)
    torch.testing.assert_close(found.alpha, soft.weights)
    torch.testing.assert_close(found.context, found.weights @ data(2, 7, 3, seed=3))
    assert found.context.shape == (2, 3, 3) and found.weights.shape == found.alpha.shape == (2, 3, 7)


def test_the_expectation_is_soft_attention():
    """In training and in evaluation (eq. 13)."""
    for training in (True, False):
        found = read(build("expectation", training=training))
        assert torch.equal(found.weights, found.alpha)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("choice", HARD)
def test_a_hard_choice_is_exactly_one_hot(choice, training, dtype):
    """Exactly, in every dtype: a context that holds a little of another place is not one place's value."""
    found = read(build(choice, dtype, training), dtype, batch=20)
    ones, zeros = (found.weights == 1), (found.weights == 0)
    assert ((ones | zeros).all() and (ones.sum(-1) == 1).all()), "a choice must be one 1 and zeros"
    assert found.weights.dtype == found.context.dtype == dtype


@pytest.mark.parametrize("choice", HARD)
def test_evaluation_takes_the_most_probable_place_and_repeats_itself(choice):
    """A sample at test time gives another caption at every call."""
    attention = build(choice, training=False)
    before = torch.get_rng_state()
    first, second = read(attention, seed=5), read(attention, seed=6)
    assert torch.equal(first.weights, second.weights), "evaluation must not draw"
    assert torch.equal(first.weights.argmax(-1), first.alpha.argmax(-1))
    torch.set_rng_state(before)
    attention(data(2, 3, 4), data(2, 7, 5), data(2, 7, 3))
    assert torch.equal(before, torch.get_rng_state()), "evaluation used up random numbers"


@pytest.mark.parametrize("choice", ["sample", "gumbel"])
def test_training_draws_from_the_global_generator(choice):
    """Reproducible by manual_seed; another seed, another choice."""
    attention = build(choice)
    first, again, other = (read(attention, batch=30, seed=seed).weights for seed in (5, 5, 6))
    assert torch.equal(first, again), "the same seed chose other places"
    assert not torch.equal(first, other), "the seed does not matter: is there a generator of its own?"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("choice", ["sample", "gumbel"])
def test_places_are_chosen_as_often_as_alpha_says(choice, dtype):
    """Within five standard errors of 20,000 draws, hidden places never."""
    attention = HardAttention(DotScore(), choice, temperature=0.5)
    alpha, times = torch.tensor([0.5, 0.3, 0.15, 0.05]), 20_000
    key = torch.cat([alpha.log(), torch.tensor([9.0])])[:, None].to(dtype)
    torch.manual_seed(0)
    query = torch.ones(times, 1, dtype=dtype)
    mask = torch.tensor([True, True, True, True, False])
    share = attention(query, key, key, mask=mask).weights.detach().float().mean(0)
    assert share[4] == 0, "a hidden place was chosen"
    error = (alpha * (1 - alpha) / times).sqrt()
    assert ((share[:4] - alpha).abs() < 5 * error + 2e-3).all(), f"chosen {share.tolist()}"


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_hidden_place_is_never_read_and_changes_nothing(choice, training):
    """Move the key and value that the mask hides, far."""
    attention = build(choice, training=training)
    mask = torch.tensor([True, True, True, False, True, False, True])
    key, value = data(2, 7, 5, seed=2), data(2, 7, 3, seed=3)
    before = read(attention, mask=mask)
    key[:, ~mask], value[:, ~mask] = key[:, ~mask] + 50, value[:, ~mask] - 100
    after = read(attention, mask=mask, key=key, value=value)
    assert (before.weights[..., ~mask] == 0).all() and (before.alpha[..., ~mask] == 0).all()
    assert torch.equal(before.context, after.context), "a hidden place was read: is the mask inverted?"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_row_with_nothing_to_attend_is_zero_and_finite(choice, training, dtype):
    """Weights, alpha, context, log-probability and entropy 0; no NaN forward or backward, in any dtype."""
    attention = build(choice, dtype, training)
    mask = torch.ones(2, 3, 7, dtype=torch.bool)
    mask[0, 1] = False
    query = data(2, 3, 4, dtype=dtype).requires_grad_()
    value = data(2, 7, 3, seed=3, dtype=dtype).requires_grad_()
    found = attention(query, data(2, 7, 5, seed=2, dtype=dtype), value, mask=mask)
    chosen, uncertainty = log_probability(found.alpha, found.weights), entropy(found.alpha)
    for name, part in {**found._asdict(), "log_probability": chosen, "entropy": uncertainty}.items():
        assert (part[0, 1] == 0).all(), f"{name} of a row with nothing to attend is not 0"
        assert part.isfinite().all() and part.dtype == dtype
    (found.context.sum() + found.alpha.square().sum() + chosen.sum() + uncertainty.sum()).backward()
    for tensor in (query, value, *attention.parameters()):
        assert tensor.grad.isfinite().all(), "a NaN came back from a row with nothing to attend"
    assert (query.grad[0, 1] == 0).all() and (query.grad[0, 0] != 0).any()


@pytest.mark.parametrize("choice", ["expectation", "arg max"])
def test_permuting_the_places_permutes_the_choice(choice):
    attention, order = build(choice), torch.tensor([3, 0, 6, 1, 5, 4, 2])
    before = read(attention)
    after = read(
        attention, key=data(2, 7, 5, seed=2)[:, order], value=data(2, 7, 3, seed=3)[:, order]
    )
    torch.testing.assert_close(after.weights, before.weights[..., order])
    torch.testing.assert_close(after.context, before.context)


@pytest.mark.parametrize("choice", CHOICES)
def test_keys_projected_before_change_nothing_but_time(choice):
    attention, query, key = build(choice), data(2, 3, 4), data(2, 7, 5, seed=2)
    torch.manual_seed(1)
    plain = attention(query, key, key)
    torch.manual_seed(1)
    ahead = attention(query, key, key, projected_keys=attention.score.project_keys(key))
    torch.testing.assert_close(ahead, plain)


def test_the_gradient_of_what_is_differentiable_is_right():
    """The expectation against finite differences; the value of a hard choice, too."""
    query, key, value = (data(1, n, w, seed=n).requires_grad_() for n, w in ((2, 4), (5, 5), (5, 3)))
    assert torch.autograd.gradcheck(lambda *args: build("expectation")(*args)[0], (query, key, value))
    hard = partial(build("arg max"), query.detach(), key.detach())
    assert torch.autograd.gradcheck(lambda v: hard(v).context, (value,))
    alpha = torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.6, 0.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(entropy, (alpha[:1],))
    chosen = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: log_probability(a, chosen), (alpha,))


@pytest.mark.parametrize("choice", ["sample", "arg max"])
def test_no_gradient_passes_through_a_choice(choice):
    """A sample that is not detached looks like a straight-through estimate, and is none."""
    found = read(build(choice))
    assert not found.weights.requires_grad, "the choice must be detached"
    assert found.alpha.requires_grad, "alpha must not be: REINFORCE needs its gradient"


# --- Straight-through Gumbel -------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_straight_through_is_the_framework_s(temperature):
    """Same noise, same one-hot choice, and the gradient of softmax((scores + g) / temperature)."""
    attention = HardAttention(DotScore(), "gumbel", temperature=temperature)
    key, value, query = torch.eye(5), data(5, 3, dtype=torch.float32), data(4, 5, dtype=torch.float32)
    mine, theirs = query.clone().requires_grad_(), query.clone().requires_grad_()
    torch.manual_seed(3)
    context = attention(mine, key, value).context
    torch.manual_seed(3)
    expected = F.gumbel_softmax(theirs, tau=temperature, hard=True) @ value
    torch.testing.assert_close(context, expected)
    (context**2).sum().backward()
    (expected**2).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad, msg="are the noise and the temperature in it?")
    assert mine.grad.abs().max() > 0


def test_straight_through_passes_the_soft_gradient_of_the_hard_point():
    """By its definition: d loss / d weights at the one-hot choice, times d soft / d scores."""
    attention = HardAttention(DotScore(), "gumbel", temperature=0.7)
    scores = data(1, 4, dtype=torch.float32).requires_grad_()
    target = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
    torch.manual_seed(0)
    found = attention(scores, torch.eye(4), torch.eye(4))
    ((found.context - target) ** 2).sum().backward()
    torch.manual_seed(0)
    noise = -torch.empty(1, 4).exponential_().log()
    p = ((scores.detach() + noise) / 0.7).softmax(-1)[0]
    jacobian = (torch.diag(p) - torch.outer(p, p)) / 0.7
    upstream = 2 * (found.weights.detach()[0] - target[0])
    torch.testing.assert_close(scores.grad[0], jacobian @ upstream)


# --- REINFORCE against exact enumeration -------------------------------------------------------------------

STEPS, PLACES = 3, 3


class Tiny(torch.nn.Module):
    """Three choices among three places. Each moves the state, and with it later choices and rewards."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.attention = HardAttention(AdditiveScore(2, 2, 3), "sample").double()
        self.key = torch.nn.Parameter(1.5 * data(PLACES, 2, seed=8))
        self.move = torch.nn.Parameter(data(2, 2, seed=9))
        self.worth = data(STEPS, 2, seed=10)
        with torch.no_grad():
            for parameter in self.attention.parameters():
                parameter.mul_(3)

    def forward(self, batch=1, forced=None):
        """(log p of each choice, reward of each step, alpha), (batch, steps), of drawn or forced choices."""
        key, state = self.key.expand(batch, -1, -1), torch.ones(batch, 2, dtype=torch.float64)
        chosen, rewards, alphas = [], [], []
        for step in range(STEPS):
            context, weights, alpha = (part[:, 0] for part in self.attention(state[:, None], key, key))
            if forced is not None:
                weights = F.one_hot(torch.tensor([forced[step]]), PLACES).double()
                context = (weights[:, None] @ key)[:, 0]
            state = (state @ self.move + context).tanh()
            chosen.append(log_probability(alpha, weights))
            rewards.append(-2 + state @ self.worth[step])
            alphas.append(alpha)
        return torch.stack(chosen, 1), torch.stack(rewards, 1), torch.stack(alphas, 1)


def gradient(model, objective):
    grads = torch.autograd.grad(objective, list(model.parameters()), allow_unused=True)
    return torch.cat([
        (torch.zeros_like(p) if g is None else g).flatten()
        for p, g in zip(model.parameters(), grads, strict=True)
    ])


def sequences():
    return itertools.product(range(PLACES), repeat=STEPS)


def exact_gradient(model):
    """d/dtheta of sum_s p(s) R(s), over all 27 sequences of choices."""
    total = 0.0
    for forced in sequences():
        chosen, rewards, _ = model(forced=forced)
        total = total + chosen.sum().exp() * rewards.sum()
    return gradient(model, total)


def expected_estimate(model, surrogate):
    """The mean of the estimator, exactly: its value for every sequence, weighted by the sequence's p."""
    total = 0.0
    for forced in sequences():
        chosen, rewards, _ = model(forced=forced)
        total = total + chosen.sum().exp().item() * gradient(model, -surrogate(chosen, rewards))
    return total


def estimate(chosen, rewards, devices):
    """The loss of hard attention: -R, and the score term with some of the devices."""
    judged = reward_to_go(rewards) if "to go" in devices else rewards.sum(-1, keepdim=True)
    baseline = 0.0
    if "average" in devices:
        baseline = torch.tensor([-4.0])
    if "per step" in devices:
        baseline = torch.tensor([-6.0, -4.0, -2.0])
    return -rewards.sum(-1).mean() + score_function_loss(chosen, judged, baseline)


DEVICES = [(), ("average",), ("to go",), ("to go", "per step"), ("per step",)]


@pytest.mark.parametrize("devices", DEVICES, ids=lambda names: ", ".join(names) or "plain")
def test_the_expected_estimate_is_the_exact_gradient(devices):
    """Without sampling error: the estimator, averaged over all sequences, is the gradient of the bound.

    A baseline that changes the mean, a reward from the wrong step on, a wrong sign: all show here.
    """
    model = Tiny()
    found = expected_estimate(model, partial(estimate, devices=devices))
    torch.testing.assert_close(found, exact_gradient(model), rtol=1e-9, atol=1e-9)


def test_a_baseline_may_not_look_at_the_choice_it_judges():
    """The suite can tell: a 'baseline' that contains half the reward is found to be biased."""
    model = Tiny()
    def looks_ahead(chosen, rewards):
        to_go = reward_to_go(rewards)
        return -rewards.sum(-1).mean() + score_function_loss(chosen, to_go, to_go / 2)

    found = expected_estimate(model, looks_ahead)
    assert (found - exact_gradient(model)).norm() > 0.1 * exact_gradient(model).norm()


@pytest.mark.parametrize("devices", [(), ("to go", "per step")], ids=["plain", "all devices"])
def test_drawn_choices_estimate_the_exact_gradient_within_the_sampling_error(devices):
    """30 groups of 1,000 captions each: the mean lies within five standard errors, in every component."""
    model = Tiny()
    torch.manual_seed(0)
    groups = torch.stack([
        gradient(model, -estimate(*model(batch=1_000)[:2], devices)) for _ in range(30)
    ])
    error = groups.std(0) / math.sqrt(len(groups))
    exact = exact_gradient(model)
    assert ((groups.mean(0) - exact).abs() <= 5 * error + 1e-9).all()
    assert (5 * error).norm() < 0.3 * exact.norm(), "too few draws to say anything"


def test_each_device_lowers_the_variance():
    """Of single estimates, over all sequences exactly: its trace falls from plain to all devices."""
    model = Tiny()

    def variance(devices):
        exact, total = exact_gradient(model), 0.0
        for forced in sequences():
            chosen, rewards, _ = model(forced=forced)
            off = gradient(model, -estimate(chosen, rewards, devices)) - exact
            total += chosen.sum().exp().item() * off.square().sum().item()
        return total

    plain, average, both = (variance(devices) for devices in ((), ("average",), ("to go", "per step")))
    assert average < 0.7 * plain, "R - b, not R + b"
    assert both < 0.9 * average


def test_the_advantage_is_a_factor_without_a_gradient():
    """Not detached, the reward would be maximised through the baseline and the log-probability weight."""
    chosen, reward, baseline = (data(2, 3, seed=seed).requires_grad_() for seed in (1, 2, 3))
    score_function_loss(chosen, reward, baseline).backward()
    assert reward.grad is None and baseline.grad is None, "detach R - b"
    torch.testing.assert_close(chosen.grad, -(reward - baseline).detach() / 2)


def test_the_choice_is_a_constant_in_its_log_probability():
    alpha = torch.tensor([[0.2, 0.8]], requires_grad=True)
    weights = torch.tensor([[0.0, 1.0]], requires_grad=True)
    log_probability(alpha, weights).sum().backward()
    assert weights.grad is None, "detach the choice"
    torch.testing.assert_close(alpha.grad, torch.tensor([[0.0, 1.25]]))


def test_better_than_expected_becomes_more_probable():
    """The sign, by hand: R = -1 against b = -3 is good; R = -5 is bad."""
    scores = torch.zeros(1, 1, 3, requires_grad=True)
    weights = torch.tensor([[[0.0, 1.0, 0.0]]])
    for reward, sign in ((-1.0, 1), (-5.0, -1)):
        chosen = log_probability(scores.softmax(-1), weights)
        (grad,) = torch.autograd.grad(score_function_loss(chosen, torch.tensor([[reward]]), -3.0), scores)
        assert -grad[0, 0, 1] * sign > 0, "descending this loss must favour choices better than the baseline"


def test_log_probability_by_hand():
    alpha = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.0, 0.0]])
    weights = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(log_probability(alpha, weights), torch.tensor([0.75, 0.5, 1.0]).log())


def test_entropy_is_that_of_the_framework_and_its_gradient_is_finite_at_zero():
    """0 log 0 is 0, and so is what it sends back; alone, its derivative is infinite."""
    alpha = data(5, 6).softmax(-1)
    torch.testing.assert_close(entropy(alpha), torch.distributions.Categorical(alpha).entropy())
    sure = torch.tensor([[0.0, 1.0, 0.0]], requires_grad=True)
    entropy(sure).sum().backward()
    assert entropy(sure) == 0 and sure.grad.isfinite().all()
    uniform = torch.full((1, 8), 1 / 8)
    torch.testing.assert_close(entropy(uniform), torch.tensor([math.log(8)]))


def test_more_entropy_is_a_flatter_choice():
    """The sign: ascending it must take from the largest."""
    scores = torch.tensor([2.0, 0.0, 0.0], requires_grad=True)
    entropy(scores.softmax(-1)).backward()
    assert scores.grad[0] < 0 < scores.grad[1]


def test_reward_to_go_is_this_step_and_all_after_it():
    assert reward_to_go(torch.tensor([[1.0, 10.0, 100.0]])).tolist() == [[111.0, 110.0, 100.0]]


def test_the_moving_average_by_hand():
    """b_k = 0.9 b_{k-1} + 0.1 R_k from b_0 = 0."""
    average = MovingAverage()
    average.update(torch.tensor([[-4.0], [-6.0]]))
    torch.testing.assert_close(average.value, torch.tensor([-0.5]))
    average.update(torch.tensor([[-15.0]]))
    torch.testing.assert_close(average.value, torch.tensor([-1.95]))
    assert "value" in average.state_dict() and not list(average.parameters())


def test_each_step_has_an_average_of_its_real_rewards():
    """Padding must not pull it to 0, and a step that no caption reached stays."""
    average = MovingAverage(4)
    average.update(torch.full((2, 4), -10.0))
    reward = torch.tensor([[-2.0, -4.0, 0.0], [-6.0, 0.0, 0.0]], requires_grad=True)
    average.update(reward, torch.tensor([[True, True, False], [True, False, False]]))
    torch.testing.assert_close(average.value, torch.tensor([-1.3, -1.3, -1.0, -1.0]))
    assert not average.value.requires_grad
    with pytest.raises(ValueError, match="reward has 5 steps and this average 4"):
        average.update(torch.zeros(2, 5))


# --- Errors ------------------------------------------------------------------------------------------------


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="choice is 'hard'.*'sample'"):
        HardAttention(DotScore(), "hard")
    with pytest.raises(ValueError, match="temperature is 0"):
        HardAttention(DotScore(), "gumbel", temperature=0)
    with pytest.raises(ValueError, match="key holds 4 vectors and value holds 5"):
        HardAttention(DotScore())(data(1, 3), data(4, 3), data(5, 3))
    with pytest.raises(TypeError, match="mask"):
        HardAttention(DotScore())(data(1, 3), data(4, 3), data(4, 3), mask=torch.ones(1, 4))


def test_of_equal_weights_the_first_is_chosen():
    assert one_hot(torch.tensor([[0.4, 0.4, 0.2], [0.0, 0.0, 0.0]])).tolist() == [[1, 0, 0], [0, 0, 0]]
