"""LWS: a learned scale for the logit of each class."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import nn

from energyalign.longtail.correctors.base import Corrected
from energyalign.longtail.correctors.head_stage import HeadStage

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class LearnableWeightScaling(HeadStage):
    """``z_i = s_i (w_i . x + b_i)``, where only the scales s are learned, from 1, by cross-entropy.

    With class-aware sampling and the learning rates of cRT, for 5 epochs after 90 in the original: an eighteenth of
    the epochs of the cell. Backbone and head stay as they are.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    part: float = 1 / 18

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """The test images under the scaled head."""
        head = ScaledHead(copy.deepcopy(trained.network.head), trained.data.train.n_classes)
        corrected = self.trained(trained, head, [head.scales], name="lws")
        return corrected._replace(details={**corrected.details, "scales": head.scales.tolist()})


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
