"""BBN: two branches on one trunk; training moves from the data as they are to reversed class frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy, with_nesterov

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.data.loader import Pair
    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import EpochBatches, Loss
    from energyalign.experiments.train.recipe import Recipe


@dataclass(frozen=True)
class Bbn(CrossEntropy):
    """Bilateral-branch network with cumulative learning.

    The last block of the backbone exists twice. The conventional branch sees a batch of the data as they are, (x_c,
    y_c). The re-balancing branch sees a batch in which a class of n images is drawn with probability proportional to
    1/n, (x_r, y_r). With ``a = 1 - ((epoch - 1) / n_epochs)^2``, epochs counted from 1::

        z = W [2 a f_c(x_c) ; 2 (1 - a) f_r(x_r)] + b
        loss = a CE(z, y_c) + (1 - a) CE(z, y_r)

    At test time both branches see the same image, with factor 1.

    The original's a reaches 0 after 200 epochs in its trainings of 200 and 180, and after 100 epochs in trainings of
    90; here it reaches 0 at the end of every training. As in the original, SGD has Nesterov's momentum and a weight
    decay of 2e-4, or 1e-4 on iNaturalist. The original's schedule is the one of the paper's cells.

    References
    ----------
    Zhou, Cui, Wei and Chen 2020, BBN: Bilateral-Branch Network with Cumulative Learning for Long-Tailed Visual
    Recognition.
    """

    name: ClassVar[str] = "bbn"
    head: ClassVar[str | None] = "linear"
    has_own_backbone: ClassVar[bool] = True

    def backbone(self, name: str) -> str:
        return name if name.endswith("-bbn") else f"{name}-bbn"

    def recipe(self, preset: Preset) -> Recipe:
        return with_nesterov(preset.recipe.with_weight_decay(1e-4 if preset.dataset == "inaturalist18" else 2e-4))

    def network(self, setting: Setting) -> Network:
        from energyalign.experiments.nets.bbn import BbnNetwork

        made = super().network(setting)
        return BbnNetwork(made.backbone, made.head)

    def batches(self, setting: Setting) -> EpochBatches:
        """Return pairs of batches, one of the data as they are and one of reversed classes, augmented independently."""
        from energyalign.experiments.data.loader import PairedLoader
        from energyalign.experiments.data.order import reversed_classes

        reverse = reversed_classes(setting.train.labels, setting.seed("reversed"))
        return PairedLoader(setting.loader(), setting.loader(order=reverse, purpose="reversed"))

    def share(self, epoch: int, n_epochs: int) -> float:
        """Return a, the share of the conventional branch: 1 in the first epoch, near 0 in the last."""
        return 1.0 - ((epoch - 1) / n_epochs) ** 2

    def loss(self, setting: Setting) -> Loss:
        from torch.nn import functional as F

        def loss(model: torch.nn.Module, batch: Pair, epoch: int) -> torch.Tensor:
            share = self.share(epoch, setting.n_epochs)
            logits = model(batch.images, batch.other_images, share)
            of_labels = F.cross_entropy(logits, batch.labels)
            return share * of_labels + (1.0 - share) * F.cross_entropy(logits, batch.other_labels)

        return loss
