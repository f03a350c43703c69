"""LDAM-DRW: larger margins for rarer classes, re-weighted late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.ce_drw import Deferred

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class LdamDrw(Deferred):
    """``L = CE(30 (cos - D_y onehot(y)))`` with ``D_j = 0.5 n_j^(-1/4) / max_k n_k^(-1/4)``, re-weighted late.

    The rarest class must win by 0.5, the largest at imbalance 100 by 0.158. The weights are those of
    `DeferredReweighting`, from the same epoch on. The original's head gives bare cosines and its loss multiplies them
    by 30; here the head does, so that its logits are those of a probability, as correctors need them. Settings for
    photographs were never published: these are the same.

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
        """Cross-entropy with margins, weighted when it is late."""
        from energyalign.experiments.losses.class_balanced import class_balanced_weights
        from energyalign.experiments.losses.ldam import ldam_loss, ldam_margins

        margins = setting.config.scale * ldam_margins(setting.counts, self.largest_margin)
        weights = class_balanced_weights(setting.counts, self.beta)

        def loss(model: torch.nn.Module, batch: Any, epoch: int) -> torch.Tensor:
            weight = weights if self.is_late(epoch, setting.n_epochs) else None
            return ldam_loss(model(batch.images), batch.labels, margins, weight)

        return loss
