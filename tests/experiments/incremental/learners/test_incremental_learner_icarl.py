"""The training of iCaRL and of LwF.MC."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
import torch
from tiny_setting import TinyBatch, says
from tiny_step import tiny_step

from energyalign.experiments.incremental.learners import find_learner
from energyalign.experiments.incremental.learners.icarl import sigmoid_distillation
from energyalign.experiments.incremental.presets import PRESETS
from energyalign.experiments.train.recipe import SGD, Adam, Cosine, Recipe


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
    recipe = find_learner(name).recipe(replace(PRESETS["cifar100-il-10"], recipe=Recipe(70, 32, SGD(0.1), Cosine())))
    assert (recipe.epochs, recipe.batch_size, recipe.optimizer) == (70, 32, SGD(0.02, weight_decay=2e-3))
    rates = [recipe.lr(epoch) for epoch in range(1, 71)]
    assert rates == pytest.approx([0.02] * 49 + [0.004] * 14 + [0.0008] * 7)
    shorter = recipe.lasting(10)
    assert [shorter.lr(epoch) for epoch in range(1, 11)] == pytest.approx([0.02] * 7 + [0.004] * 2 + [0.0008])


@pytest.mark.parametrize("name", ["icarl", "lwf"])
@pytest.mark.parametrize(("preset", "n_outputs"), [("imagenet100-il-10", 100), ("imagenet-il-10", 1000)])
def test_the_rate_on_imagenet_is_that_of_a_mean_over_all_its_classes(name: str, preset: str, n_outputs: int) -> None:
    """A rate of 2 for the mean, and an L2 term of 1e-5 times half the square: their product is 2e-5."""
    recipe = find_learner(name).recipe(PRESETS[preset])
    optimizer = recipe.optimizer
    assert isinstance(optimizer, SGD)
    assert optimizer.lr == pytest.approx(2 / n_outputs)
    assert optimizer.lr * optimizer.weight_decay == pytest.approx(2e-5)
    rates = [recipe.lasting(60).lr(epoch) / optimizer.lr for epoch in (1, 21, 22, 31, 32, 41, 42, 51, 52, 60)]
    assert rates == pytest.approx([1, 1, 0.2, 0.2, 0.04, 0.04, 0.008, 0.008, 0.0016, 0.0016])


@pytest.mark.parametrize("name", ["icarl", "lwf"])
def test_weight_decay_is_the_same_in_every_step(name: str) -> None:
    """In the paper's own training it decreases."""
    for learner, falls in ((find_learner(name), False), (find_learner("distill"), True)):
        config = tiny_step(learner, (2, 2), (2,)).config
        decays = [cast(SGD, config.recipe_of(step).optimizer).weight_decay for step in (1, 2, 3)]
        assert decays[0] > 0
        assert (decays[2] < decays[1] < decays[0]) == falls
        assert (decays[0] == decays[1] == decays[2]) != falls


def test_an_optimiser_of_ones_own_is_kept() -> None:
    cell = replace(PRESETS["cifar100-il-10"], recipe=Recipe(70, 32, Adam(3e-4), Cosine()))
    assert find_learner("icarl").recipe(cell).optimizer == Adam(3e-4)


@pytest.mark.parametrize("name", ["icarl", "lwf", "eeil"])
def test_head_and_teacher(name: str) -> None:
    """The head is linear, whatever the cell's head is."""
    learner = find_learner(name)
    assert learner.has_teacher
    assert tiny_step(learner, (2, 2), (2,), head="cosine").config.head == "linear"
