"""CE-DRW: re-weights classes late in training; and the base class of the deferred methods of LDAM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.train.recipe import Recipe, Steps, WarmUp

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss

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


@dataclass(frozen=True)
class DeferredReweighting(Deferred):
    """Plain cross-entropy, then cross-entropy with class-balanced weights ``w_j ~ (1 - beta) / (1 - beta^n_j)``.

    ``L = sum_s w_(y_s) CE_s / sum_s w_(y_s)``: the mean divides by the sum of the weights in the batch, as torch's
    weighted cross-entropy does and LDAM uses it. The weights begin in the 161st of 200 epochs.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples.
    """

    name: ClassVar[str] = "ce-drw"
    beta: float = 0.9999

    def loss(self, setting: Setting) -> Loss:
        """Cross-entropy, weighted when it is late."""
        from torch.nn import functional as F

        from energyalign.experiments.losses.class_balanced import class_balanced_weights
        from energyalign.experiments.losses.weight_share import weight_share

        weights = class_balanced_weights(setting.counts, self.beta)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            logits = model(batch.images)
            if not self.is_late(epoch, setting.n_epochs):
                return F.cross_entropy(logits, batch.labels)
            return F.cross_entropy(logits, batch.labels, weight=weights) * weight_share(weights[batch.labels])

        return loss
