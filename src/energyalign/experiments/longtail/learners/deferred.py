"""What the deferred methods of LDAM have in common: they begin late, when the learning rate falls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.train.recipe import Recipe, Steps, WarmUp

if TYPE_CHECKING:
    from energyalign.experiments.engine.preset import Preset

# LDAM's code lowers the rate in epochs e > 160 and e > 180, counted from 1.
LDAM_STEPS = Steps((161, 181), 0.01, 200, WarmUp(5))


@dataclass(frozen=True)
class Deferred(CrossEntropy):
    """Plain training for four fifths of the way, 160 of 200 epochs, and something done about the imbalance after that.

    A cell that lowers the learning rate in steps gets LDAM's steps instead of its own, since the first of them belongs
    to the change; one with another schedule, such as a cosine, keeps it. On CIFAR the weight decay is LDAM's 2e-4.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    defer_for: float = 0.8
    """Part of the epochs before the change."""

    def recipe(self, preset: Preset) -> Recipe:
        """With LDAM's steps, if there are steps, and its weight decay on CIFAR."""
        recipe = preset.recipe.with_weight_decay(2e-4) if preset.on_cifar else preset.recipe
        return replace(recipe, schedule=LDAM_STEPS) if isinstance(recipe.schedule, Steps) else recipe

    def is_late(self, epoch: int, n_epochs: int) -> bool:
        """Whether this epoch, counted from 1, comes after the change."""
        return epoch > self.defer_for * n_epochs
