"""cRT: the head trained again, on balanced classes."""

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
    """A new head of the same kind, trained by cross-entropy with class-aware sampling on the features as they are.

    The original trains it for 10 epochs after 90 on ImageNet-LT, here for a ninth of the epochs of the cell, and for 30
    epochs on iNaturalist.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    name: ClassVar[str] = "crt"
    part: float = 1 / 9
    part_on_inaturalist: float = 1 / 3
    max_on_inaturalist: int = 30

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The network with the new head."""
        from energyalign.experiments.nets.heads import make_head

        config = trained.config
        seed_torch(config.seed, "crt", "head")
        head = make_head(
            config.head, trained.network.backbone.n_features, trained.n_seen, scale=config.scale,
            learned_scale=config.learned_scale,
        )  # fmt: skip
        return self.trained(trained, head, head.parameters())
