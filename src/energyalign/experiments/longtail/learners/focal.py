"""Focal: less weight on what is easy already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.longtail.learners.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.longtail.experiment import Setting
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class Focal(CrossEntropy):
    """``L = -(1 - p_y)^gamma log p_y`` with p the softmax, averaged over the batch.

    The public codes differ: LDAM has gamma = 1 and lets the gradient through the modulator, De-confound has gamma = 2
    and does not, BagofTricks has gamma = 2 on one sigmoid per class. This is LDAM's.

    References
    ----------
    Lin et al. 2017, Focal Loss for Dense Object Detection.
    """

    name: ClassVar[str] = "focal"
    gamma: float = 1.0

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        """The focal loss."""
        from energyalign.experiments.losses.focal import focal_loss

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return focal_loss(model(batch.images), batch.labels, self.gamma)

        return loss
