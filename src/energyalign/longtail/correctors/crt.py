"""cRT: the head trained again, on balanced classes."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from energyalign.longtail.correctors.base import Corrected
from energyalign.longtail.learners.cross_entropy import CrossEntropy
from energyalign.longtail.second_stage import epochs_of_cell, train_second_stage
from energyalign.nets.frozen_backbone import FrozenBackbone
from energyalign.nets.heads import make_head
from energyalign.train.randomness import seed_torch
from energyalign.train.schedule import Cosine

if TYPE_CHECKING:
    from energyalign.longtail.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class ClassifierRetraining:
    """A new head of the same kind, trained by cross-entropy with class-aware sampling on the features as they are.

    The original trains it for 10 epochs after 90, from the initial learning rate down to 0 by a cosine, with the batch
    size and the weight decay of the first stage; so do we, for a ninth of the epochs of the cell. The public code
    leaves the frozen backbone in training mode, where its batch statistics move with the new sampling. Ours stay.

    Attributes
    ----------
    part : float
        Of the epochs of the cell.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    part: float = 1 / 9

    @property
    def reads_evidence(self) -> bool:
        """It looks at training batches."""
        return False

    def check(self, setting: Setting) -> None:
        """Every network has a head."""

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The test images under the new head."""
        config = trained.setting.config
        backbone = copy.deepcopy(trained.network.backbone)
        seed_torch(config.seed, "crt", "head")
        head = make_head(
            config.head, backbone.n_features, trained.data.train.n_classes, scale=config.scale,
            learned_scale=config.learned_scale,
        )  # fmt: skip
        network = FrozenBackbone(backbone, head)
        recipe = replace(config.recipe, epochs=epochs_of_cell(config, self.part), schedule=Cosine())
        train_second_stage(
            trained,
            network,
            self,
            name="crt",
            recipe=recipe,
            parameters=head.parameters(),
            loss=CrossEntropy().loss(trained.setting),
        )
        return Corrected(trained.outputs(network, trained.data.test), details={"epochs": recipe.epochs})
