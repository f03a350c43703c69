"""The training of iCaRL and of LwF.MC."""

from __future__ import annotations

import pytest
import torch
from tiny_setting import TinyBatch, says
from tiny_step import tiny_step

from energyalign.incremental.learners import find_learner
from energyalign.losses.sigmoid_distillation import sigmoid_distillation
from energyalign.train.recipe import SGD, Adam, Recipe
from energyalign.train.schedule import Cosine


@pytest.mark.parametrize("name", ["icarl", "lwf"])
def test_loss_is_that_of_labels_and_teacher(name: str) -> None:
    learner = find_learner(name)
    step = tiny_step(learner, (2, 2, 3), (2, 1))
    logits, taught, labels = torch.randn(4, 3), torch.randn(4, 2), torch.tensor([0, 1, 2, 2])
    batch = TinyBatch(torch.zeros(4, 1, 8, 8), labels)
    with_teacher = learner.loss(step, says(taught))(says(logits), batch, 1)
    torch.testing.assert_close(with_teacher, sigmoid_distillation(logits, labels, taught))
    alone = learner.loss(step, None)(says(logits), batch, 1)
    torch.testing.assert_close(alone, sigmoid_distillation(logits, labels, None))
    assert float(alone) != float(with_teacher)


@pytest.mark.parametrize("name", ["icarl", "lwf"])
def test_recipe_is_the_originals_over_the_epochs_of_the_cell(name: str) -> None:
    recipe = find_learner(name).recipe(Recipe(70, 32, SGD(0.1), Cosine()))
    assert (recipe.epochs, recipe.batch_size, recipe.optimizer) == (70, 32, SGD(0.02, weight_decay=2e-3))
    rates = [recipe.lr(epoch) for epoch in range(1, 71)]
    assert rates == pytest.approx([0.02] * 49 + [0.004] * 14 + [0.0008] * 7)
    shorter = recipe.lasting(10)
    assert [shorter.lr(epoch) for epoch in range(1, 11)] == pytest.approx([0.02] * 7 + [0.004] * 2 + [0.0008])


def test_an_optimiser_of_ones_own_is_kept() -> None:
    recipe = find_learner("icarl").recipe(Recipe(70, 32, Adam(3e-4), Cosine()))
    assert recipe.optimizer == Adam(3e-4)


@pytest.mark.parametrize("name", ["icarl", "lwf", "eeil"])
def test_head_and_teacher(name: str) -> None:
    """A linear head, whatever the cell has."""
    learner = find_learner(name)
    assert learner.has_teacher
    assert tiny_step(learner, (2, 2), (2,), head="cosine").config.head == "linear"
