"""The learning rates of the papers, epoch by epoch."""

from __future__ import annotations

import math

import pytest

from energyalign import EnergyAlignError
from energyalign.experiments.train.recipe import SGD, Adam, Constant, Cosine, Recipe, Steps, WarmUp

BBN = Recipe(200, 128, SGD(0.1, nesterov=True), Steps((120, 160), 0.01, 200, WarmUp(5, 1 / 3)))
LDAM = Recipe(200, 128, SGD(0.1), Steps((161, 181), 0.01, 200, WarmUp(5)))


@pytest.mark.parametrize(
    ("epoch", "lr"),
    [(1, 0.0466667), (2, 0.06), (3, 0.0733333), (4, 0.0866667), (5, 0.1), (119, 0.1), (120, 1e-3), (159, 1e-3),
     (160, 1e-5), (200, 1e-5)],
)  # fmt: skip
def test_bbn(epoch: int, lr: float) -> None:
    assert BBN.lr(epoch) == pytest.approx(lr, rel=1e-5)


@pytest.mark.parametrize(
    ("epoch", "lr"), [(1, 0.02), (4, 0.08), (5, 0.1), (160, 0.1), (161, 1e-3), (180, 1e-3), (181, 1e-5), (200, 1e-5)]
)
def test_ldam(epoch: int, lr: float) -> None:
    assert LDAM.lr(epoch) == pytest.approx(lr)


def test_cosine_goes_from_the_base_rate_towards_zero() -> None:
    recipe = Recipe(90, 512, SGD(0.2), Cosine())
    assert recipe.lr(1) == 0.2
    assert recipe.lr(46) == pytest.approx(0.1)
    assert recipe.lr(90) == pytest.approx(0.1 * (1 + math.cos(math.pi * 89 / 90)))
    assert all(recipe.lr(e) > recipe.lr(e + 1) for e in range(1, 90))


def test_a_shorter_run_has_its_steps_at_the_same_parts_of_the_way() -> None:
    short = BBN.lasting(20)
    rates = [short.lr(epoch) for epoch in range(1, 21)]
    assert rates[0] == pytest.approx(0.1)  # half an epoch of warm-up is none
    assert [epoch for epoch, lr in enumerate(rates, 1) if lr == pytest.approx(1e-3)] == [13, 14, 15, 16]
    assert rates[16:] == pytest.approx([1e-5] * 4)
    assert BBN.lasting(1).lr(1) == pytest.approx(0.1)


def test_constant() -> None:
    assert Recipe(3, 1, Adam(0.5), Constant()).lr(2) == 0.5


def test_lengths_below_one_are_refused() -> None:
    with pytest.raises(EnergyAlignError, match="must be >= 1"):
        BBN.lasting(0)
