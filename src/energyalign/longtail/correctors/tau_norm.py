"""Tau-norm: the weights of each class divided by a power of their length."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from energyalign.longtail.correctors.base import Corrected

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class TauNorm:
    """``w_i / |w_i|^tau`` in place of the weights ``w_i``, and no bias: common classes have the longer weights.

    The original tries tau = 0, 0.1, ..., 2 on a validation set (for iNaturalist on the test set). There is none here,
    and test data are out of question: tau is the one with the best accuracy on balanced evidence from the training
    data, the largest if several are as good. The network has seen these images, most of all those of rare classes,
    which it may know by heart without any correction: such evidence flatters small tau.

    A head that normalises its weights, as a cosine head does, is left as it is by every tau.

    Attributes
    ----------
    grid : tuple of float

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    grid: tuple[float, ...] = tuple(k / 10 for k in range(21))

    @property
    def reads_evidence(self) -> bool:
        """To choose tau."""
        return True

    def check(self, setting: Setting) -> None:
        """Every head has weights."""

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:
        """The features of the test images under the rescaled head."""
        head = trained.network.head
        seen = trained.evidence_features(plan)
        features, labels = torch.from_numpy(np.concatenate(seen.blocks)), torch.from_numpy(seen.all_labels())
        right = {tau: int((_logits(head, tau, features).argmax(1) == labels).sum()) for tau in self.grid}
        tau = max(right, key=lambda tau: (right[tau], tau))
        logits = _logits(head, tau, torch.from_numpy(trained.test_features))
        return Corrected(logits.numpy(), details={"tau": tau, "accuracy_on_evidence": right[tau] / len(labels)})


def rescaled(head: torch.nn.Module, tau: float) -> torch.nn.Module:
    """A copy of the head with weights ``w_i / |w_i|^tau`` and without a bias; weights of length zero stay."""
    result = copy.deepcopy(head)
    lengths = torch.linalg.vector_norm(head.weight.detach(), dim=1, keepdim=True)
    with torch.no_grad():
        result.weight /= lengths.masked_fill(lengths == 0, 1.0) ** tau
    result.bias = None
    return result


def _logits(head: torch.nn.Module, tau: float, features: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return rescaled(head, tau)(features.to(head.weight.device)).cpu()
