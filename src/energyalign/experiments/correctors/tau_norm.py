"""Tau-norm: the weights of each class divided by a power of their norm."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from energyalign.experiments.correctors.base import (
    Corrected,
    Corrector,
    RunSetting,
    concatenate_evidence,
    refuse_no_memory,
)

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class TauNorm(Corrector):
    """Weights ``w_i / |w_i|^tau`` without a bias, because common classes have longer weights.

    The original chooses tau from 0, 0.1, ..., 2 on validation images (on iNaturalist on the test images). This
    corrector does the same where the data set has validation images, as ImageNet-LT does. Elsewhere tau is the one with
    the best accuracy on balanced evidence from the training images; test images are never used. The network has seen
    these images and may have memorised the images of rare classes, so such evidence favours small tau. Ties go to the
    largest tau.

    Tau has no effect on a head that normalises its weights, such as a cosine head.

    Attributes
    ----------
    grid : tuple of float, default 0, 0.1, ..., 2
        Values of tau to choose from.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    reads_evidence: ClassVar[bool] = True  # if there are no validation images

    grid: tuple[float, ...] = tuple(k / 10 for k in range(21))

    def check(self, setting: RunSetting) -> None:
        refuse_no_memory(setting)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        head, validation = trained.network.head, trained.validation
        if validation is not None:
            features, labels, chosen_on = trained.features(validation), validation.labels, "validation"
        else:
            (features, labels), chosen_on = concatenate_evidence(trained, plan), "evidence"
        right = {
            tau: int(np.count_nonzero(trained.scores(rescale(head, tau), features).argmax(axis=1) == labels))
            for tau in self.grid
        }
        tau = max(right, key=lambda tau: (right[tau], tau))
        details = {"tau": tau, "chosen_on": chosen_on, "accuracy_there": right[tau] / len(labels)}
        return Corrected(trained.with_head(rescale(head, tau)), details=details)


def rescale(head: torch.nn.Module, tau: float) -> torch.nn.Module:
    """Return a copy of the head with weights ``w_i / |w_i|^tau`` and no bias; zero weights stay zero."""
    import torch

    result = copy.deepcopy(head)
    lengths = torch.linalg.vector_norm(head.weight.detach(), dim=1, keepdim=True)
    with torch.no_grad():
        result.weight /= lengths.masked_fill(lengths == 0, 1.0) ** tau
    result.bias = None
    return result
