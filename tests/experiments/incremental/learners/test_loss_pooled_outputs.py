"""Pooled outputs by hand: differences that they measure and differences that they ignore."""

from __future__ import annotations

import pytest
import torch

from energyalign.experiments.incremental.learners.podnet import pooled_outputs


def one_channel(*rows: list[float]) -> torch.Tensor:
    return torch.tensor([[list(rows)]])


def test_by_hand() -> None:
    """Rows and columns sum to (4, 0; 4, 0) and (0, 4; 4, 0): unit vectors at a distance of 1."""
    before, now = one_channel([2.0, 0.0], [0.0, 0.0]), one_channel([0.0, 0.0], [-2.0, 0.0])
    assert float(pooled_outputs([before], [now])) == pytest.approx(1.0)
    assert float(pooled_outputs([before, before], [now, 3.0 * before])) == pytest.approx(0.5)


def test_what_keeps_the_sums_of_rows_and_columns_is_free() -> None:
    before, now = one_channel([1.0, 0.0], [0.0, 1.0]), one_channel([0.0, 1.0], [1.0, 0.0])
    assert float(pooled_outputs([before], [now])) == pytest.approx(0.0)


def test_equal_maps_have_a_gradient_that_is_a_number() -> None:
    maps = torch.zeros(2, 3, 4, 4, requires_grad=True)
    pooled_outputs([torch.zeros(2, 3, 4, 4)], [maps]).backward()
    assert maps.grad is not None
    assert bool(maps.grad.isfinite().all())
