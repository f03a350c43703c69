"""What the deferred methods of LDAM have in common: they begin late, when the learning rate falls."""

from __future__ import annotations

from dataclasses import dataclass, replace

from energyalign.longtail.learners.cross_entropy import CrossEntropy
from energyalign.train.recipe import Recipe
from energyalign.train.schedule import Steps, WarmUp

# LDAM's code lowers the rate in epochs e > 160 and e > 180, counted from 1.
LDAM_STEPS = Steps((161, 181), 0.01, 200, WarmUp(5))


@dataclass(frozen=True)
class Deferred(CrossEntropy):
    """Plain training for four fifths of the way, 160 of 200 epochs, and something done about the imbalance after that.

    A cell that lowers the learning rate in steps gets LDAM's steps instead of its own, since the first of them belongs
    to the change; one with another schedule, such as a cosine, keeps it.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    defer_for: float = 0.8
    """Part of the epochs before the change."""

    def recipe(self, recipe: Recipe) -> Recipe:
        """With LDAM's steps, if there are steps."""
        return replace(recipe, schedule=LDAM_STEPS) if isinstance(recipe.schedule, Steps) else recipe

    def is_late(self, epoch: int, n_epochs: int) -> bool:
        """Whether this epoch, counted from 1, comes after the change."""
        return epoch > self.defer_for * n_epochs
