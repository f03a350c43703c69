"""LADE's regulariser by hand, and its minimum."""

from __future__ import annotations

from math import log

import pytest
import torch

from energyalign.experiments.longtail.learners.lade import lade_regulariser

PRIOR = torch.tensor([0.75, 0.25])


def test_by_hand() -> None:
    """Two images of class 0 and none of class 1. e^z has means 3 and 1; z of class 0 has mean 1.5 log 2."""
    logits = torch.log(torch.tensor([[2.0, 1.0], [4.0, 1.0]]))
    first, second = log(3 / 1.5), log(1 / 0.5)
    expected = 0.75 * (first + 0.1 * first**2 - 1.5 * log(2)) + 0.25 * (second + 0.1 * second**2)
    assert float(lade_regulariser(logits, torch.tensor([0, 0]), PRIOR, 0.1)) == pytest.approx(expected)


def test_without_the_square_a_constant_changes_nothing_but_with_it_there_is_a_best_one() -> None:
    logits, labels = torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0] * 6 + [1] * 2)
    plain = lade_regulariser(logits, labels, PRIOR, 0.0)
    torch.testing.assert_close(lade_regulariser(logits + 5.0, labels, PRIOR, 0.0), plain)
    best = logits - (logits.exp().mean(dim=0) / (2 * PRIOR)).log()  # every r_j is 0
    torch.testing.assert_close(lade_regulariser(best, labels, PRIOR, 0.1), plain)
    assert lade_regulariser(best + 1.0, labels, PRIOR, 0.1) > plain
