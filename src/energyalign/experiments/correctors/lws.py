"""LWS: a learned scale for the logit of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.correctors.second_stage import HeadStage

if TYPE_CHECKING:
    from energyalign.experiments.correctors.base import Corrected
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class LearnableWeightScaling(HeadStage):
    """``z_i = s_i (w_i . x + b_i)``, where only the scales s are learned, from 1, by cross-entropy.

    With class-aware sampling and the learning rates of cRT, for 5 epochs after 90 on ImageNet-LT in the original, here
    for an eighteenth of the epochs of the cell, and for 5 epochs on iNaturalist. The weights of backbone and head stay.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    name: ClassVar[str] = "lws"
    part: float = 1 / 18
    part_on_inaturalist: float = 1 / 18
    max_on_inaturalist: int = 5

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The network with the scaled head."""
        from energyalign.experiments.nets.corrected_heads import ScaledHead

        head = ScaledHead(trained.copied_head(), trained.n_seen)
        corrected = self.trained(trained, head, [head.scales])
        return corrected._replace(details={**corrected.details, "scales": head.scales.tolist()})
