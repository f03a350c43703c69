"""DisAlign: a learned scale and shift of each class's logit, weighted by a confidence in the features."""

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

    ``s(x)`` is a learned number between 0 and 1 (`CalibratedHead`). Class weights are ``w_j ~ n_j^-rho`` with sum C,
    and the batch mean is weighted by them. Sampling is not balanced; backbone and head are frozen.

    The original trains for 10 epochs after 90 on ImageNet-LT; here training takes a ninth of the epochs of the cell.
    Its rho for ImageNet-LT, 1.2, is used on every data set. The released code has no settings for CIFAR and
    iNaturalist; the settings of cRT are used instead.

    Attributes
    ----------
    rho : float, default 1.2
        Exponent of the class weights.

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
        from energyalign.experiments.nets.corrected_heads import CalibratedHead

        seed_torch(trained.config.seed, "disalign", "head")
        head = CalibratedHead(trained.copied_head(), trained.network.backbone.n_features, trained.n_seen)
        learned = [head.magnitudes, head.margins, *head.confidence.parameters()]
        corrected = self.train_head(trained, head, learned)
        details = {"magnitudes": head.magnitudes.tolist(), "margins": head.margins.tolist()}
        return corrected._replace(details={**corrected.details, **details})

    def loss(self, trained: Trained) -> Loss:
        import torch

        from energyalign.experiments.losses.cross_entropy import weighted_cross_entropy

        counts = torch.tensor(trained.counts, dtype=torch.float32, device=trained.fabric.device)
        weights = generalised_weights(counts, self.rho)

        def loss(model: torch.nn.Module, batch: Any, _epoch: int) -> torch.Tensor:
            return weighted_cross_entropy(model(batch.images), batch.labels, weights)

        return loss


def generalised_weights(counts: torch.Tensor, rho: float) -> torch.Tensor:
    """Return ``n^-rho``, rescaled to sum to the number of classes: equal weights for rho = 0, inverse counts for 1."""
    weights = (counts / counts.sum()) ** -rho
    return weights * (len(weights) / weights.sum())
