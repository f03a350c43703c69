"""NCA with a margin, compared with numbers computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from energyalign.experiments.incremental.learners.podnet import nca_loss


def test_by_hand() -> None:
    """The other classes sum to 2 + 3; the true class minus its margin has 4 / 2, or 40 / 2 for a loss of 0."""
    logits = torch.log(torch.tensor([[4.0, 2.0, 3.0], [2.0, 3.0, 40.0]]))
    loss = nca_loss(logits, torch.tensor([0, 2]), math.log(2))
    assert float(loss) == pytest.approx(math.log(5 / 2) / 2)


def test_what_is_far_enough_ahead_has_no_gradient() -> None:
    logits = torch.tensor([[9.0, 1.0], [1.0, 0.0]], requires_grad=True)
    nca_loss(logits, torch.tensor([0, 0]), 2.0).backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.tensor([[0.0, 0.0], [-0.5, 0.5]]))
