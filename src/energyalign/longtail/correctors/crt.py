"""cRT: the head trained again, on balanced classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyalign.longtail.correctors.base import Corrected
from energyalign.longtail.correctors.head_stage import HeadStage
from energyalign.nets.heads import make_head
from energyalign.train.randomness import seed_torch

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class ClassifierRetraining(HeadStage):
    """A new head of the same kind, trained by cross-entropy with class-aware sampling on the features as they are.

    The original trains it for 10 epochs after 90; so do we, for a ninth of the epochs of the cell. The public code
    leaves the frozen backbone in training mode, where its batch statistics move with the new sampling. Ours stay.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    part: float = 1 / 9

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The test images under the new head."""
        config = trained.setting.config
        seed_torch(config.seed, "crt", "head")
        head = make_head(
            config.head, trained.network.backbone.n_features, trained.data.train.n_classes, scale=config.scale,
            learned_scale=config.learned_scale,
        )  # fmt: skip
        return self.trained(trained, head, head.parameters(), name="crt")
