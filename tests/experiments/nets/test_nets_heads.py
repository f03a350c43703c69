"""Heads by hand and by name, and properties of all normalised heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from energyalign import EnergyAlignError
from energyalign.experiments.nets.heads import (
    CapsuleHead,
    CausalNormHead,
    CosineHead,
    LinearHead,
    NormalisedHead,
    make_head,
)
from energyalign.experiments.nets.registry import HEADS


@pytest.fixture
def head() -> CosineHead:
    """Make a head with three classes at 0, 90 and 180 degrees, with weights of different lengths."""
    head = CosineHead(2, 3, scale=10.0)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.5], [-7.0, 0.0]]))
    return head


def test_logits_are_scaled_cosines(head: CosineHead) -> None:
    logits = head(torch.tensor([[3.0, 4.0], [0.0, -1.0]]))
    torch.testing.assert_close(logits, torch.tensor([[6.0, 8.0, -6.0], [0.0, -10.0, 0.0]]))


def test_a_bias_comes_after_the_scale(head: CosineHead) -> None:
    assert head.bias is None
    head.bias = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(head(torch.tensor([[3.0, 4.0]])), torch.tensor([[7.0, 10.0, -3.0]]))


@pytest.mark.parametrize("factor", [1e-6, 0.5, 1000.0])
def test_lengths_do_not_matter(factor: float) -> None:
    head, features = CosineHead(5, 4), torch.randn(7, 5)
    expected = head(features)
    torch.testing.assert_close(head(factor * features), expected)
    with torch.no_grad():
        head.weight.mul_(factor * torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
    torch.testing.assert_close(head(features), expected)


def test_logits_are_proportional_to_the_scale_and_reach_it() -> None:
    small, large = CosineHead(5, 4), CosineHead(5, 4, scale=30.0)
    large.weight = small.weight
    features = torch.randn(7, 5)
    torch.testing.assert_close(large(features), small(features) * 30.0 / 16.0)
    torch.testing.assert_close(small(small.weight).diagonal(), torch.full((4,), 16.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_features_of_length_zero(dtype: torch.dtype) -> None:
    head = CosineHead(5, 4).to(dtype)
    features = torch.zeros(2, 5, dtype=dtype)
    features[1] = 1.0
    features.requires_grad_()
    logits = head(features)
    assert torch.equal(logits[0], torch.zeros(4, dtype=dtype))
    logits.float().log_softmax(1)[:, 0].sum().backward()
    for gradient in (features.grad, head.weight.grad):
        assert gradient is not None
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() < 100  # gradients that are finite but huge would stop training


def test_a_learned_scale_is_trained_and_a_fixed_one_is_not() -> None:
    learned, fixed = CosineHead(5, 4, learned_scale=True), CosineHead(5, 4)
    features = torch.randn(7, 5)
    for head in (learned, fixed):
        head(features).logsumexp(1).sum().backward()
    assert learned.scale.grad is not None
    assert learned.scale.grad != 0
    assert {name for name, _ in learned.named_parameters()} == {"weight", "scale"}
    assert {name for name, _ in fixed.named_parameters()} == {"weight"}


@pytest.mark.parametrize("learned", [False, True])
def test_a_checkpoint_brings_its_scale_along(learned: bool) -> None:
    head = CosineHead(5, 4)
    head.load_state_dict(CosineHead(5, 4, scale=30.0, learned_scale=learned).state_dict())
    assert head.scale == 30.0
    assert "scale=30" in repr(head)


@pytest.mark.parametrize("name", HEADS)
def test_weights_are_drawn_uniformly_within_one_over_the_root_of_the_features(name: str) -> None:
    weight = make_head(name, 64, 1000).weight.detach()
    bound = 1 / math.sqrt(64)
    assert weight.shape == (1000, 64)
    assert 0.999 * bound < weight.max() <= bound
    assert -bound <= weight.min() < -0.999 * bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.01)


def test_heads_by_name() -> None:
    linear = make_head("linear", 64, 10)
    assert type(linear) is LinearHead
    assert linear.bias.shape == (10,)
    cosine = make_head("cosine", 64, 10, scale=30.0, learned_scale=True)
    assert type(cosine) is CosineHead
    assert isinstance(cosine.scale, nn.Parameter)
    assert cosine.scale == 30.0
    assert make_head("cosine", 64, 10).scale == 16.0


def test_what_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="unknown head 'cosin': choose linear, cosine"):
        make_head("cosin", 64, 10)
    with pytest.raises(EnergyAlignError, match="n_classes must be >= 1, got 0"):
        make_head("linear", 64, 0)
    for scale in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(EnergyAlignError, match="scale of a cosine head must be a positive number"):
            make_head("cosine", 64, 10, scale=scale)


NORMALISED = [name for name, entry in HEADS.items() if entry.is_normalised]


def with_weights(head: NormalisedHead, weight: list[list[float]]) -> NormalisedHead:
    with torch.no_grad():
        head.weight.copy_(torch.tensor(weight))
    return head


def test_which_heads_normalise() -> None:
    assert NORMALISED == ["cosine", "capsule", "causal-norm"]
    assert all(isinstance(make_head(name, 6, 3), NormalisedHead) for name in NORMALISED)


def test_capsule_by_hand() -> None:
    """The feature (3, 4) has length 5, so its factor is 5/6; its cosines are 0.6, 0.8 and -0.6."""
    head = with_weights(CapsuleHead(2, 3), [[2.0, 0.0], [0.0, 0.5], [-7.0, 0.0]])
    logits = head(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    torch.testing.assert_close(logits, torch.tensor([[8.0, 16 * 0.8 * 5 / 6, -8.0], [0.0, 0.0, 0.0]]))


def test_capsule_prefers_long_features_up_to_the_scale() -> None:
    head = CapsuleHead(5, 4)
    direction = head.weight[:1].detach()
    logits = torch.stack([head(length * direction / direction.norm())[0, 0] for length in (0.1, 1.0, 10.0, 1e6)])
    torch.testing.assert_close(logits, 16 * torch.tensor([0.1 / 1.1, 0.5, 10 / 11, 1.0]))


def test_causal_norm_by_hand() -> None:
    """Halves (3, 4) and (0, 2) become (0.6, 0.8) and (0, 1); a weight of length n has the factor n / (n + 1/32)."""
    head = with_weights(CausalNormHead(4, 3), [[1.0, 0.0, 0.0, 1.0], [0.0, 1 / 32, 0.0, -1 / 32], [3.0, 4.0, 0.0, 0.0]])
    logits = head(torch.tensor([[3.0, 4.0, 0.0, 2.0]]))
    first = 8 * (0.6 * 32 / 33 + 32 / 33)
    second = 8 * (0.8 / 2 - 1 / 2)
    third = 8 * (5 / (5 + 1 / 32) + 0.0)
    torch.testing.assert_close(logits, torch.tensor([[first, second, third]]))


def test_causal_norm_against_numpy() -> None:
    rng = np.random.default_rng(0)
    features, weight = rng.normal(size=(7, 6)), rng.normal(size=(3, 6))
    wanted = np.zeros((7, 3))
    for part in (slice(0, 3), slice(3, 6)):
        x, w = features[:, part], weight[:, part]
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        w = w / (np.linalg.norm(w, axis=1, keepdims=True) + 1 / 32)
        wanted += 16 / 2 * x @ w.T
    logits = with_weights(CausalNormHead(6, 3), weight.tolist())(torch.tensor(features, dtype=torch.float32))
    np.testing.assert_allclose(logits.detach().numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_to_causal_norm_the_length_of_features_does_not_matter_and_that_of_weights_does() -> None:
    head, features = CausalNormHead(6, 4), torch.randn(7, 6)
    before = head(features)
    torch.testing.assert_close(head(features * torch.tensor([5.0] * 3 + [0.1] * 3)), before)
    own = head.weight.detach().clone()
    short = head(own).diagonal()
    with torch.no_grad():
        head.weight.mul_(10.0)
    assert (short < head(own).diagonal()).all()
    assert (head(own).diagonal() < 16).all()


def test_an_odd_number_of_features_has_no_halves() -> None:
    with pytest.raises(EnergyAlignError, match="number of features must be divisible by 2, got 5"):
        make_head("causal-norm", 5, 3)


@pytest.mark.parametrize("name", NORMALISED)
def test_logits_are_normalised_features_compared(name: str) -> None:
    head, features = make_head(name, 6, 4), torch.randn(7, 6)
    assert torch.equal(head(features), head.compare(head.normalised(features)))
    assert head.normalised(features).shape == features.shape
    assert head(features).abs().max() <= 16.0


@pytest.mark.parametrize("name", NORMALISED)
def test_a_bias_comes_after_the_scale_of_each_kind(name: str) -> None:
    head, features = make_head(name, 6, 3), torch.randn(7, 6)
    before = head(features)
    assert head.bias is None
    head.bias = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(head(features), before + torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("name", NORMALISED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_zeros_do_no_harm(name: str, dtype: torch.dtype) -> None:
    head = make_head(name, 6, 4).to(dtype)
    features = torch.zeros(2, 6, dtype=dtype)
    features[1] = 1.0
    features.requires_grad_()
    with torch.no_grad():
        head.weight[3] = 0.0
    logits = head(features)
    assert torch.equal(logits[0], torch.zeros(4, dtype=dtype))
    logits.float().log_softmax(1)[:, 0].sum().backward()
    for gradient in (features.grad, head.weight.grad):
        assert gradient is not None
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", NORMALISED)
def test_options_by_name(name: str) -> None:
    head = make_head(name, 6, 4, scale=30.0, learned_scale=True)
    assert head.scale == 30.0
    assert isinstance(head.scale, nn.Parameter)
    assert make_head(name, 6, 4).scale == 16.0
    for scale in (0.0, math.nan):
        with pytest.raises(EnergyAlignError, match="must be a positive number"):
            make_head(name, 6, 4, scale=scale)
