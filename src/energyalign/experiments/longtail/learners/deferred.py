"""LDAM and its deferred schedules: CE-DRW, CE-DRS and LDAM-DRW."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.core.arrays import Ints
from energyalign.experiments.data.order import class_balanced, shuffled
from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.train.recipe import Recipe, Steps, WarmUp

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import EpochBatches, Loss

# LDAM's code lowers the rate in epochs e > 160 and e > 180, counted from 1.
LDAM_STEPS = Steps((161, 181), 0.01, 200, WarmUp(5))


@dataclass(frozen=True)
class Deferred(CrossEntropy):
    """Plain training for the first 80 % of the epochs (160 of 200), then re-balancing.

    A cell that lowers the learning rate in steps gets LDAM's steps, of which the first coincides with the change; a
    cell with another schedule, such as a cosine, keeps it. On CIFAR the weight decay is LDAM's 2e-4.

    Attributes
    ----------
    defer_for : float, default 0.8
        Share of the epochs before the change.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    defer_for: float = 0.8

    def recipe(self, preset: Preset) -> Recipe:
        recipe = preset.recipe.with_weight_decay(2e-4) if preset.on_cifar else preset.recipe
        return replace(recipe, schedule=LDAM_STEPS) if isinstance(recipe.schedule, Steps) else recipe

    def is_late(self, epoch: int, n_epochs: int) -> bool:
        """Return whether this epoch, counted from 1, comes after the change."""
        return epoch > self.defer_for * n_epochs


@dataclass(frozen=True)
class DeferredReweighting(Deferred):
    """CE-DRW: cross-entropy, later with class-balanced weights ``w_j ~ (1 - beta) / (1 - beta^n_j)``.

    As in LDAM's code, the batch mean is weighted: ``sum_s w_(y_s) CE_s / sum_s w_(y_s)``.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples.
    """

    name: ClassVar[str] = "ce-drw"
    beta: float = 0.9999

    def loss(self, setting: Setting) -> Loss:
        from torch.nn import functional as F

        from energyalign.experiments.losses.class_balanced import class_balanced_weights
        from energyalign.experiments.losses.cross_entropy import weighted_cross_entropy

        weights = class_balanced_weights(setting.counts, self.beta)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            logits = model(batch.images)
            if not self.is_late(epoch, setting.n_epochs):
                return F.cross_entropy(logits, batch.labels)
            return weighted_cross_entropy(logits, batch.labels, weights)

        return loss


@dataclass(frozen=True)
class DeferredResampling(Deferred):
    """CE-DRS: cross-entropy on the data as they are, later on class-balanced samples of them.

    Late epochs of N images are N draws with replacement: a class uniformly, then one of its images uniformly. LDAM's
    released code builds its loader before its sampler and so never re-samples; this follows the paper's text and, like
    BagofTricks, draws classes uniformly. The number of batches per epoch does not change.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    name: ClassVar[str] = "ce-drs"

    def batches(self, setting: Setting) -> EpochBatches:
        # Early epochs are exactly the same as in plain training, so that the two differ in the re-sampling alone.
        plain = shuffled(len(setting.train), setting.seed("data"))
        balanced = class_balanced(setting.train.labels, setting.seed("re-sampling"))

        def order(epoch: int) -> Ints:
            return balanced(epoch) if self.is_late(epoch, setting.n_epochs) else plain(epoch)

        return setting.loader(order=order)


@dataclass(frozen=True)
class LdamDrw(Deferred):
    """LDAM-DRW: ``L = CE(30 (cos - D_y onehot(y)))`` with ``D_j = 0.5 n_j^(-1/4) / max_k n_k^(-1/4)``.

    The rarest class must win by 0.5, and at imbalance 100 the largest by 0.158. Late epochs have the weights of
    `DeferredReweighting`. The original multiplies bare cosines by 30 in the loss; here the head does, because
    correctors need logits of probabilities. No settings for photographs were published; these are used there too.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    name: ClassVar[str] = "ldam-drw"
    head: ClassVar[str | None] = "cosine"
    scale: ClassVar[float | None] = 30.0
    largest_margin: float = 0.5
    beta: float = 0.9999

    def loss(self, setting: Setting) -> Loss:
        from energyalign.experiments.losses.class_balanced import class_balanced_weights
        from energyalign.experiments.losses.ldam import ldam_loss, ldam_margins

        margins = setting.config.scale * ldam_margins(setting.counts, self.largest_margin)
        weights = class_balanced_weights(setting.counts, self.beta)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            weight = weights if self.is_late(epoch, setting.n_epochs) else None
            return ldam_loss(model(batch.images), batch.labels, margins, weight)

        return loss
