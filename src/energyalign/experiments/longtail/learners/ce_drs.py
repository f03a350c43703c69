"""CE-DRS: re-samples classes late in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.core.arrays import Ints
from energyalign.experiments.data.order import class_balanced, shuffled
from energyalign.experiments.longtail.learners.ce_drw import Deferred

if TYPE_CHECKING:
    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import EpochBatches


@dataclass(frozen=True)
class DeferredResampling(Deferred):
    """Cross-entropy on the data as they come, then on class-balanced samples of them.

    From the 161st of 200 epochs on, an epoch of N images is N draws with replacement: a class, each as likely, then one
    of its images, each as likely. LDAM's released code builds its loader before its sampler and so never re-samples;
    this follows the paper's text, and BagofTricks in drawing classes evenly. Batches an epoch stay as many as before.

    References
    ----------
    Cao et al. 2019, Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    """

    name: ClassVar[str] = "ce-drs"

    def batches(self, setting: Setting) -> EpochBatches:
        """In an order that repeats the images of rare classes when it is late."""
        # Until then exactly the epochs of plain training, so that the two differ in the re-sampling alone.
        plain = shuffled(len(setting.train), setting.seed("data"))
        balanced = class_balanced(setting.train.labels, setting.seed("re-sampling"))

        def order(epoch: int) -> Ints:
            return balanced(epoch) if self.is_late(epoch, setting.n_epochs) else plain(epoch)

        return setting.loader(order=order)
