"""Cosine heads by hand, and heads by name."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from energyalign import EnergyAlignError
from energyalign.experiments.nets.heads import CosineHead, LinearHead, make_head
from energyalign.experiments.nets.registry import HEADS


@pytest.fixture
def head() -> CosineHead:
    """Three classes at 0, 90 and 180 degrees, with weights of different lengths."""
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
        assert gradient.abs().max() < 100  # finite in name only would be no help to training


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


def test_every_head_has_a_description() -> None:
    assert all(entry.description for entry in HEADS.values())


def test_what_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match="unknown head 'cosin': choose linear, cosine"):
        make_head("cosin", 64, 10)
    with pytest.raises(EnergyAlignError, match="at least one class, not 0"):
        make_head("linear", 64, 0)
    for scale in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(EnergyAlignError, match="scale of a cosine head must be a positive number"):
            make_head("cosine", 64, 10, scale=scale)
