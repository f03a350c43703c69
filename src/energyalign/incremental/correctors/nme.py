"""The nearest mean of exemplars, by which iCaRL predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from energyalign.core.arrays import Floats, Ints
from energyalign.data.images import ImageSet
from energyalign.data.preparation import SmallPreparation
from energyalign.experiment.class_means import class_means
from energyalign.experiment.outputs import Floats32, outputs
from energyalign.incremental.correctors.base import Corrected
from energyalign.incremental.correctors.plain import PlainCorrector
from energyalign.incremental.refusals import refuse_no_memory

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.incremental.after_step import AfterStep
    from energyalign.incremental.config import IncrementalConfig


class NearestMeans(nn.Module):  # type: ignore[misc]
    """Scores ``-|x / |x| - m_k|^2`` of features x, with a mean for each class."""

    means: torch.Tensor

    def __init__(self, means: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("means", means)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Minus squared distances, by their parts: differences would take n_classes times the memory of features."""
        phi = F.normalize(features)
        return 2.0 * phi @ self.means.T - phi.square().sum(dim=1, keepdim=True) - self.means.square().sum(dim=1)


class Mirrored(nn.Module):  # type: ignore[misc]
    """What a network says of images turned left to right, wherever the images come from."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The last axis of images is their width."""
        return self.network(images.flip(-1))


@dataclass(frozen=True)
class NearestMeanOfExemplars(PlainCorrector):
    """The class whose mean is nearest: ``argmin_k |phi(x) - m_k|``; the head is left out.

    phi are features brought to length one. ``m_k`` is the mean of phi over the exemplars of class k and the same over
    their mirror images, added and brought to length one again. This is what the original's code does; its paper has no
    mirror images, and means of any length. Sets whose images are not mirrored in training, such as digits, have no
    mirror images here either.

    Of the new classes too only the exemplars count, those that are kept after the step.

    References
    ----------
    Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation Learning.
    """

    @property
    def first_step(self) -> int:
        """The first: it has its own answer for one step of classes as for many."""
        return 1

    def check(self, config: IncrementalConfig) -> None:
        """Means take exemplars."""
        refuse_no_memory(config, "the nearest mean of exemplars needs exemplars")

    def correct(self, after: AfterStep, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """Nearest means in place of the head."""
        exemplars, step = after.exemplars, after.step
        views = [after.features(exemplars)]
        if _may_be_mirrored(exemplars):
            mirrored = Mirrored(after.for_inference.backbone)
            views.append(outputs(mirrored, exemplars, workers=step.workers, device=step.fabric.device))
        means = np.mean([_means(view, exemplars.labels, step.n_seen) for view in views], axis=0)
        head = NearestMeans(F.normalize(torch.from_numpy(means)).float())
        return Corrected(head.to(step.fabric.device))


def _means(features: Floats32, labels: Ints, n_classes: int) -> Floats:
    """Of features of length one, class by class."""
    return class_means(F.normalize(torch.from_numpy(features).double()).numpy(), labels, n_classes)


def _may_be_mirrored(images: ImageSet) -> bool:
    """Whether the mirror image of such an image is one of the same class: whether training takes it for one."""
    preparation = images.preparation
    return preparation.flip if isinstance(preparation, SmallPreparation) else True
