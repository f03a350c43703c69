"""The focal losses compared with their formulas, class by class."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from energyalign.experiments.longtail.learners.cb_focal import sigmoid_focal_loss
from energyalign.experiments.longtail.learners.focal import focal_loss

torch.set_num_threads(1)

# Softmax of log(1, 2, 5) is 1/8, 2/8, 5/8.
LOGITS = torch.tensor([[1.0, 2.0, 5.0], [5.0, 1.0, 2.0]]).log()
LABELS = torch.tensor([1, 0])


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, 0.928149), (1.0, 0.607986), (2.0, 0.422942)])
def test_focal_of_three_classes(gamma: float, expected: float) -> None:
    by_hand = (-(0.75**gamma) * math.log(0.25) - 0.375**gamma * math.log(0.625)) / 2
    assert by_hand == pytest.approx(expected, abs=1e-6)
    assert float(focal_loss(LOGITS, LABELS, gamma)) == pytest.approx(expected, abs=1e-6)


def test_without_gamma_it_is_cross_entropy() -> None:
    logits, labels = torch.randn(50, 7), torch.randint(7, (50,))
    torch.testing.assert_close(focal_loss(logits, labels, 0.0), F.cross_entropy(logits, labels))


def test_the_modulator_takes_part_in_the_gradient() -> None:
    """By hand, with p = p_y and gamma = 1: dL/dz_y = (1 - p)(p log p - (1 - p)); the modulator gives the first term."""
    logits = LOGITS[:1].clone().requires_grad_()
    focal_loss(logits, LABELS[:1], 1.0).backward()
    assert float(logits.grad[0, 1]) == pytest.approx(0.75 * (0.25 * math.log(0.25) - 0.75))
    assert float(logits.grad.sum()) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_gradients_are_those_of_differences(gamma: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 3, dtype=torch.float64, generator=generator).requires_grad_()
    labels, weights = torch.tensor([0, 2, 1, 2]), torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: focal_loss(z, labels, gamma), logits)
    assert torch.autograd.gradcheck(lambda z: sigmoid_focal_loss(z, labels, weights, gamma), logits)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_certainty_has_no_infinite_slope(gamma: float) -> None:
    for size in (40.0, 200.0):  # p_y is 1 in single precision
        for labels in (torch.tensor([0]), torch.tensor([1])):
            logits = torch.tensor([[size, -size, -size]]).requires_grad_()
            loss = focal_loss(logits, labels, gamma) + sigmoid_focal_loss(logits, labels, torch.ones(3), gamma)
            loss.backward()
            assert torch.isfinite(loss)
            assert torch.isfinite(logits.grad).all()


def test_sigmoid_focal_of_three_classes() -> None:
    """Odds 1/3 and 3 are probabilities 1/4 and 3/4; class 0 is the true class and has weight 2."""
    logits = torch.tensor([[math.log(3), -math.log(3), math.log(3)]])
    loss = sigmoid_focal_loss(logits, torch.tensor([0]), torch.tensor([2.0, 1.0, 0.5]), 1.0)
    # A probability of 3/4 for the right decision on classes 0 and 1, of 1/4 on class 2.
    expected = 2 * (-0.25 * math.log(0.75) * 2 - 0.75 * math.log(0.25))
    assert expected == pytest.approx(2.367124, abs=1e-6)
    assert float(loss) == pytest.approx(expected)


def test_sigmoid_focal_against_loops() -> None:
    rng = np.random.default_rng(0)
    logits, labels, weights = rng.normal(size=(6, 4)), rng.integers(4, size=6), np.array([0.1, 0.4, 1.5, 2.0])
    total = 0.0
    for z, y in zip(logits, labels, strict=True):
        for j in range(4):
            p = 1 / (1 + math.exp(-z[j]))
            right = p if j == y else 1 - p
            total -= weights[y] * (1 - right) ** 0.5 * math.log(right)
    loss = sigmoid_focal_loss(torch.from_numpy(logits), torch.from_numpy(labels), torch.from_numpy(weights), 0.5)
    assert float(loss) == pytest.approx(total / 6)
