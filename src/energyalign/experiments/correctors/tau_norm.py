"""Tau-norm: the weights of each class divided by a power of their length."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Ints
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_no_memory

if TYPE_CHECKING:
    import torch

    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class TauNorm(Corrector):
    """``w_i / |w_i|^tau`` in place of the weights ``w_i``, and no bias: common classes have the longer weights.

    The original tries tau = 0, 0.1, ..., 2 on validation images (for iNaturalist on the test images). So do we where
    the data set has validation images, as ImageNet-LT does. Elsewhere tau is the one with the best accuracy on balanced
    evidence from the training data; test images are never used. The network has seen the images of that evidence, most
    of all those of rare classes, which it may know by heart: such evidence flatters small tau. Of several that are as
    good, the largest is taken.

    A head that normalises its weights, as a cosine head does, is left as it is by every tau.

    Attributes
    ----------
    grid : tuple of float

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    reads_evidence: ClassVar[bool] = True  # to choose tau, where there are no validation images

    grid: tuple[float, ...] = tuple(k / 10 for k in range(21))

    def check(self, setting: RunSetting) -> None:
        """Evidence takes images of every class."""
        refuse_no_memory(setting, "tau-norm needs training images of every class seen")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The rescaled head."""
        head, validation = trained.network.head, trained.validation
        if validation is not None:
            features, labels, chosen_on = trained.features(validation), validation.labels, "validation"
        else:
            seen = trained.evidence_features(plan)
            labels = np.concatenate([np.asarray(of_block) for of_block in seen.labels])
            features, chosen_on = np.concatenate(seen.blocks), "evidence"
        right = {tau: _count_right(trained.scores(rescaled(head, tau), features), labels) for tau in self.grid}
        tau = max(right, key=lambda tau: (right[tau], tau))
        details = {"tau": tau, "chosen_on": chosen_on, "accuracy_there": right[tau] / len(labels)}
        return Corrected(trained.with_head(rescaled(head, tau)), details=details)


def rescaled(head: torch.nn.Module, tau: float) -> torch.nn.Module:
    """A copy of the head with weights ``w_i / |w_i|^tau`` and without a bias; weights of length zero stay."""
    import torch

    result = copy.deepcopy(head)
    lengths = torch.linalg.vector_norm(head.weight.detach(), dim=1, keepdim=True)
    with torch.no_grad():
        result.weight /= lengths.masked_fill(lengths == 0, 1.0) ** tau
    result.bias = None
    return result


def _count_right(logits: npt.NDArray[np.float32], labels: Ints) -> int:
    return int(np.count_nonzero(logits.argmax(axis=1) == labels))
