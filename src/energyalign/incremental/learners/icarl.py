"""The training of iCaRL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from energyalign.incremental.learners.fine_tuning import FineTuning
from energyalign.losses.sigmoid_distillation import sigmoid_distillation
from energyalign.train.loop import Loss
from energyalign.train.recipe import SGD, Recipe
from energyalign.train.schedule import Steps

if TYPE_CHECKING:
    from energyalign.incremental.step import Step


@dataclass(frozen=True)
class ICaRL(FineTuning):
    """Binary cross-entropy of a sigmoid for every class: labels speak of new classes, the teacher of old ones.

    See `energyalign.losses.sigmoid_distillation`. On new images and exemplars alike, old classes are the teacher's
    affair. The corrector ``nme`` belongs to it; with ``raw`` the head predicts, which the original's script calls
    hybrid 1.

    The original has a rate of 2 and an L2 term of 1e-5 on the mean over all 100 classes of CIFAR, seen or not. A mean
    over the classes seen would learn at another pace in every step. So the sum is taken, to whose gradient it does not
    matter how many other classes there are, with the original's numbers for a sum: a rate of 2 / 100, and a weight
    decay of 2e-3, as its term is the square and not half of it. On digits, in batches of 32, rates from 0.005 to 0.2
    all worked and 0.02 worked best. The rate falls to a fifth after 49 and after 63 of 70 epochs, here after the same
    parts of the cell's. Weight decay falls from step to step as in the cell.

    For ImageNet the original has other steps (a fifth after 20, 30, 40 and 50 of 60 epochs); here these are taken for
    all data.

    References
    ----------
    Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation Learning.
    """

    name: ClassVar[str] = "icarl"
    head: ClassVar[str | None] = "linear"
    has_teacher: ClassVar[bool] = True

    def recipe(self, recipe: Recipe) -> Recipe:
        """The original's steps and, if it is SGD, its rate and weight decay; epochs and batch size are the cell's."""
        own = replace(recipe, schedule=Steps((50, 64), 0.2, 70))
        if not isinstance(recipe.optimizer, SGD):
            return own
        return replace(own, optimizer=replace(recipe.optimizer, lr=0.02, weight_decay=2e-3))

    def loss(self, step: Step, teacher: torch.nn.Module | None) -> Loss:  # noqa: ARG002
        """The label's answer for all classes in the first step."""

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            logits, taught = model(batch.images), None
            if teacher is not None:
                with torch.no_grad():
                    taught = teacher(batch.images)
            return sigmoid_distillation(logits, batch.labels, taught)

        return loss
