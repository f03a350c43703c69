"""What cRT and LWS have in common: a head that is trained on features that stay as they are."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from energyalign.longtail.correctors.base import Corrected
from energyalign.longtail.learners.cross_entropy import CrossEntropy
from energyalign.longtail.second_stage import epochs_of_cell, train_second_stage
from energyalign.nets.frozen_backbone import FrozenBackbone
from energyalign.train.schedule import Cosine

if TYPE_CHECKING:
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class HeadStage:
    """Cross-entropy with class-aware sampling on a frozen backbone, from the initial learning rate to 0 by a cosine.

    Batch size and weight decay are those of the first stage.

    Attributes
    ----------
    part : float
        Of the epochs of the cell.
    """

    part: float

    @property
    def reads_evidence(self) -> bool:
        """It looks at training batches."""
        return False

    def check(self, setting: Setting) -> None:
        """Every network has a head."""

    def trained(self, trained: Trained, head: nn.Module, parameters: Iterable[Any], *, name: str) -> Corrected:
        """The test images under this head, once these of its parameters are trained."""
        config = trained.setting.config
        network = FrozenBackbone(copy.deepcopy(trained.network.backbone), head)
        recipe = replace(config.recipe, epochs=epochs_of_cell(config, self.part), schedule=Cosine())
        train_second_stage(
            trained, network, self, name=name, recipe=recipe, parameters=parameters,
            loss=CrossEntropy().loss(trained.setting),
        )  # fmt: skip
        return Corrected(trained.outputs(network, trained.data.test), details={"epochs": recipe.epochs})
