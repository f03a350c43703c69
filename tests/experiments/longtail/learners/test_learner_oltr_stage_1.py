"""OLTR's first stage: a third of the epochs, with a third of these at each rate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.learners import find_learner
from energyalign.experiments.longtail.presets import PRESETS


def test_the_recipe() -> None:
    config = LongTailConfig.from_preset(PRESETS["imagenet-lt-resnet50"], find_learner("oltr-stage-1"), seed=0)
    assert config.head == "linear"
    assert (config.recipe.epochs, config.recipe.batch_size) == (30, 512)
    rates = [config.recipe.lr(epoch) for epoch in (1, 10, 11, 20, 21, 30)]
    assert rates == pytest.approx([0.2, 0.2, 0.02, 0.02, 0.002, 0.002])


@pytest.mark.parametrize(("epochs", "expected"), [(1, 1), (3, 1), (8, 3), (60, 20), (200, 67)])
def test_at_least_one_epoch(epochs: int, expected: int) -> None:
    cell = PRESETS["digits-lt-50"]
    longer = replace(cell, recipe=cell.recipe.lasting(epochs))
    assert find_learner("oltr-stage-1").recipe(longer).epochs == expected
