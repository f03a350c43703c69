"""DisAlign: a learned scale and shift of each class's logit, as far as a confidence that reads the features says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from energyalign.experiments.correctors.second_stage import HeadStage
from energyalign.experiments.train.randomness import seed_torch

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.correctors.base import Corrected
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained
    from energyalign.experiments.train.loop import Loss


@dataclass(frozen=True)
class DistributionAlignment(HeadStage):
    """``z'_j = (1 + s(x) alpha_j) z_j + s(x) beta_j``, learned by cross-entropy with generalised weights.

    ``s(x)`` is a learned number between 0 and 1 (`CalibratedHead`). A class with n images has the weight
    ``w_j ~ n_j^-rho``, with sum C, and the mean over a batch is the weighted mean. Images come as they are, not class
    by class; weights of backbone and head stay.

    The original trains 10 epochs after 90 on ImageNet-LT, here a ninth of the epochs of the cell, with the rho of its
    settings there, 1.2, on every data set. Its settings for CIFAR and iNaturalist are not in the released code: those
    of cRT stand in for them.

    Attributes
    ----------
    rho : float

    References
    ----------
    Zhang et al. 2021, Distribution Alignment: A Unified Framework for Long-Tail Visual Recognition.
    """

    name: ClassVar[str] = "disalign"
    balanced: ClassVar[bool] = False
    part: float = 1 / 9
    part_on_inaturalist: float = 1 / 3
    max_on_inaturalist: int = 30
    rho: float = 1.2

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The network with the calibrated head."""
        from energyalign.experiments.nets.corrected_heads import CalibratedHead

        seed_torch(trained.config.seed, "disalign", "head")
        head = CalibratedHead(trained.copied_head(), trained.network.backbone.n_features, trained.n_seen)
        learned = [head.magnitudes, head.margins, *head.confidence.parameters()]
        corrected = self.trained(trained, head, learned)
        details = {"magnitudes": head.magnitudes.tolist(), "margins": head.margins.tolist()}
        return corrected._replace(details={**corrected.details, **details})

    def loss(self, trained: Trained) -> Loss:
        """Cross-entropy, each class with its weight."""
        import torch
        from torch.nn import functional as F

        from energyalign.experiments.losses.weight_share import weight_share

        counts = torch.tensor(trained.counts, dtype=torch.float32, device=trained.fabric.device)
        weights = generalised_weights(counts, self.rho)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            weighted = F.cross_entropy(model(batch.images), batch.labels, weight=weights)
            return weighted * weight_share(weights[batch.labels])

        return loss


def generalised_weights(counts: torch.Tensor, rho: float) -> torch.Tensor:
    """``n^-rho``, rescaled so that the weights sum to the number of classes: rho = 0 for none, 1 for the inverse."""
    weights = (counts / counts.sum()) ** -rho
    return weights * (len(weights) / weights.sum())
