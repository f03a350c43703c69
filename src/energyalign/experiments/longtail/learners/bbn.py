"""BBN: two branches on one trunk, from the data as they are to the data with their classes reversed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy
from energyalign.experiments.train.recipe import SGD, Recipe

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.data.loader import Pair
    from energyalign.experiments.engine.config import Preset
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.nets.network import Network
    from energyalign.experiments.train.loop import EpochBatches, Loss


@dataclass(frozen=True)
class Bbn(CrossEntropy):
    """Bilateral-branch network with cumulative learning.

    The last block of the backbone exists twice. The conventional branch sees a batch of the data as they are, (x_c,
    y_c), the re-balancing branch one in which a class with n images is drawn with probability proportional to 1/n,
    (x_r, y_r). With ``a = 1 - ((epoch - 1) / n_epochs)^2``, epochs counted from 1::

        z = W [2 a f_c(x_c) ; 2 (1 - a) f_r(x_r)] + b
        loss = a CE(z, y_c) + (1 - a) CE(z, y_r)

    so that learning moves from the first to the second. In the test both branches see the same image, with factor 1.

    The original's a ends at 200 epochs for its 200 and 180, and at 100 for its 90; here it always ends with the
    training. Of its recipe the learner brings Nesterov's momentum and the weight decay with it, 2e-4 and on iNaturalist
    1e-4; the schedule (divided by 100 at 120 and 160 of 200 epochs on CIFAR) is that of the paper's cells anyway. Both
    concern SGD only.

    References
    ----------
    Zhou, Cui, Wei and Chen 2020, BBN: Bilateral-Branch Network with Cumulative Learning for Long-Tailed Visual
    Recognition.
    """

    name: ClassVar[str] = "bbn"
    head: ClassVar[str | None] = "linear"
    has_own_backbone: ClassVar[bool] = True

    def backbone(self, name: str) -> str:
        """That with two last blocks."""
        return name if name.endswith("-bbn") else f"{name}-bbn"

    def recipe(self, preset: Preset) -> Recipe:
        """The same with the original's SGD, if it is SGD; Nesterov's momentum needs a momentum."""
        recipe = preset.recipe.with_weight_decay(1e-4 if preset.dataset == "inaturalist18" else 2e-4)
        if not isinstance(recipe.optimizer, SGD):
            return recipe
        return replace(recipe, optimizer=replace(recipe.optimizer, nesterov=recipe.optimizer.momentum > 0))

    def network(self, setting: Setting) -> Network:
        """One whose branches can see a batch each."""
        from energyalign.experiments.nets.bbn import BbnNetwork

        made = super().network(setting)
        return BbnNetwork(made.backbone, made.head)

    def batches(self, setting: Setting) -> EpochBatches:
        """Pairs of a batch of the data as they are and one of reversed classes, augmented each on its own."""
        from energyalign.experiments.data.loader import PairedLoader
        from energyalign.experiments.data.order import reversed_classes

        reverse = reversed_classes(setting.train.labels, setting.seed("reversed"))
        return PairedLoader(setting.loader(), setting.loader(order=reverse, purpose="reversed"))

    def share(self, epoch: int, n_epochs: int) -> float:
        """Of the conventional branch: 1 in the first epoch, near 0 in the last."""
        return 1.0 - ((epoch - 1) / n_epochs) ** 2

    def loss(self, setting: Setting) -> Loss:
        """Both labels, each with the share of its branch."""
        from torch.nn import functional as F

        def loss(model: torch.nn.Module, batch: Pair, epoch: int) -> torch.Tensor:
            share = self.share(epoch, setting.n_epochs)
            logits = model(batch.images, batch.other_images, share)
            of_labels = F.cross_entropy(logits, batch.labels)
            return share * of_labels + (1.0 - share) * F.cross_entropy(logits, batch.other_labels)

        return loss
