"""LWS: a learned scale for the logit of each class."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch
from torch import nn

from energyalign.longtail.correctors.base import Corrected
from energyalign.longtail.learners.cross_entropy import CrossEntropy
from energyalign.longtail.second_stage import epochs_of_cell, train_second_stage
from energyalign.nets.frozen_backbone import FrozenBackbone
from energyalign.train.schedule import Cosine

if TYPE_CHECKING:
    from energyalign.longtail.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class LearnableWeightScaling:
    """``z_i = s_i (w_i . x + b_i)``, where only the scales s are learned, from 1, by cross-entropy.

    With class-aware sampling and the learning rates of cRT, for 5 epochs after 90 in the original: an eighteenth of
    the epochs of the cell. Backbone and head stay as they are.

    Attributes
    ----------
    part : float
        Of the epochs of the cell.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    part: float = 1 / 18

    @property
    def reads_evidence(self) -> bool:
        """It looks at training batches."""
        return False

    def check(self, setting: Setting) -> None:
        """Every head has logits."""

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The test images under the scaled head."""
        config = trained.setting.config
        head = ScaledHead(copy.deepcopy(trained.network.head), trained.data.train.n_classes)
        network = FrozenBackbone(copy.deepcopy(trained.network.backbone), head)
        recipe = replace(config.recipe, epochs=epochs_of_cell(config, self.part), schedule=Cosine())
        train_second_stage(
            trained,
            network,
            self,
            name="lws",
            recipe=recipe,
            parameters=[head.scales],
            loss=CrossEntropy().loss(trained.setting),
        )
        details = {"epochs": recipe.epochs, "scales": head.scales.tolist()}
        return Corrected(trained.outputs(network, trained.data.test), details=details)


class ScaledHead(nn.Module):  # type: ignore[misc]
    """A head that stays as it is, its logits multiplied by a learned number per class."""

    def __init__(self, head: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.head = head.requires_grad_(False)
        self.scales = nn.Parameter(torch.ones(n_classes))

    def train(self, mode: bool = True) -> Self:
        """Training mode for the scales alone."""
        super().train(mode)
        self.head.eval()
        return self

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Logits, one column per class."""
        return self.scales * self.head(features)
