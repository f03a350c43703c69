"""The second stages of Decoupling: cRT and LWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from energyalign.experiments.correctors.second_stage import HeadStage
from energyalign.experiments.train.randomness import seed_torch

if TYPE_CHECKING:
    from energyalign.experiments.correctors.base import Corrected
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class ClassifierRetraining(HeadStage):
    """cRT: a new head of the same kind, trained by cross-entropy with class-aware sampling on frozen features.

    The original trains the head for 10 epochs after 90 on ImageNet-LT, and for 30 on iNaturalist. Here it is trained
    for a ninth of the epochs of the cell, and on iNaturalist for 30 epochs.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    name: ClassVar[str] = "crt"
    part: float = 1 / 9
    part_on_inaturalist: float = 1 / 3
    max_on_inaturalist: int = 30

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        from energyalign.experiments.nets.heads import make_head

        config = trained.config
        seed_torch(config.seed, "crt", "head")
        head = make_head(
            config.head, trained.network.backbone.n_features, trained.n_seen, scale=config.scale,
            learned_scale=config.learned_scale,
        )  # fmt: skip
        return self.train_head(trained, head, head.parameters())


@dataclass(frozen=True)
class LearnableWeightScaling(HeadStage):
    """LWS: ``z_i = s_i (w_i . x + b_i)``, where only the scales s are learned, from 1, by cross-entropy.

    Sampling and learning rates are the same as for cRT. The original trains for 5 epochs after 90 on ImageNet-LT. Here
    the scales are trained for an eighteenth of the epochs of the cell, and on iNaturalist for 5 epochs. Backbone and
    head are frozen.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    name: ClassVar[str] = "lws"
    part: float = 1 / 18
    part_on_inaturalist: float = 1 / 18
    max_on_inaturalist: int = 5

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        from energyalign.experiments.nets.corrected_heads import ScaledHead

        head = ScaledHead(trained.copied_head(), trained.n_seen)
        corrected = self.train_head(trained, head, [head.scales])
        return corrected._replace(details={**corrected.details, "scales": head.scales.tolist()})
