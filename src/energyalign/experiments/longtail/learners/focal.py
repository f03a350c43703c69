"""Focal loss: less weight on samples that are easy already."""

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

    Public implementations differ: LDAM has gamma = 1 and passes gradients through the modulator, De-confound has
    gamma = 2 and does not, BagofTricks has gamma = 2 on one sigmoid per class. This is LDAM's version.

    References
    ----------
    Lin et al. 2017, Focal Loss for Dense Object Detection.
    """

    name: ClassVar[str] = "focal"
    gamma: float = 1.0

    def loss(self, setting: Setting) -> Loss:  # noqa: ARG002
        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return focal_loss(model(batch.images), batch.labels, self.gamma)

        return loss


def focal_loss(logits: torch.Tensor, labels: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return the batch mean of ``-(1 - p_y)^gamma log p_y``.

    Gradients pass through the modulator ``(1 - p_y)^gamma``. It is computed as ``exp(gamma log(1 - p_y))`` with
    ``log(1 - p_y)`` from the logits of the other classes: where p_y rounds to 1, a power with gamma < 1 has an infinite
    slope.
    """
    import torch
    from torch.nn import functional as F

    others = logits.scatter(1, labels.unsqueeze(1), -torch.inf)
    log_doubt = others.logsumexp(1) - logits.logsumexp(1)
    return (torch.exp(gamma * log_doubt) * F.cross_entropy(logits, labels, reduction="none")).mean()
