"""CE-DRW: re-weights classes late in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.deferred import Deferred

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.setting import Setting
    from energyalign.experiments.train.loop import Loss


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
