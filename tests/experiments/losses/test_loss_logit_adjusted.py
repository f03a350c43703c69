"""The logit-adjusted loss: value, gradient, and minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from energyalign.experiments.losses.logit_adjusted import log_prior, logit_adjusted_loss

LOG_PRIORS = log_prior(torch.tensor([80.0, 15.0, 5.0], dtype=torch.float64))


def test_prior() -> None:
    np.testing.assert_allclose(LOG_PRIORS, np.log([0.80, 0.15, 0.05]))


def test_of_three_classes() -> None:
    """With equal logits only the prior remains."""
    loss = logit_adjusted_loss(torch.zeros(1, 3, dtype=torch.float64), torch.tensor([2]), LOG_PRIORS, 1.0)
    assert float(loss) == pytest.approx(-math.log(0.05))
    # With tau = 2 the prior is squared: 0.64, 0.0225, 0.0025.
    loss = logit_adjusted_loss(torch.zeros(1, 3, dtype=torch.float64), torch.tensor([2]), LOG_PRIORS, 2.0)
    assert float(loss) == pytest.approx(-math.log(0.0025 / 0.665))


def test_gradient_is_posterior_minus_label() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0], [0.0, 0.5, 1.0]], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([2, 0])
    logit_adjusted_loss(logits, labels, LOG_PRIORS, 1.0).backward()
    odds = np.exp(logits.detach().numpy()) * [0.80, 0.15, 0.05]
    expected = (odds / odds.sum(1, keepdims=True) - np.eye(3)[labels]) / 2
    np.testing.assert_allclose(logits.grad, expected)
    assert torch.autograd.gradcheck(lambda z: logit_adjusted_loss(z, labels, LOG_PRIORS, 1.0), logits)


def test_logits_that_are_balanced_posteriors_are_a_minimum() -> None:
    """If x is uninformative, labels follow the prior, and the mean gradient at equal logits is zero."""
    logits = torch.zeros(100, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0] * 80 + [1] * 15 + [2] * 5)
    logit_adjusted_loss(logits, labels, LOG_PRIORS, 1.0).backward()
    torch.testing.assert_close(logits.grad.sum(0), torch.zeros(3, dtype=torch.float64))


def test_with_tau_zero_it_is_cross_entropy() -> None:
    logits, labels = torch.randn(6, 3).double(), torch.tensor([0, 1, 2, 0, 1, 2])
    torch.testing.assert_close(logit_adjusted_loss(logits, labels, LOG_PRIORS, 0.0), F.cross_entropy(logits, labels))
