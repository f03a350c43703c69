"""NME: predict the class with the nearest mean of exemplars, as iCaRL does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_no_memory, refuse_one_step
from energyalign.experiments.correctors.ncm import class_means

if TYPE_CHECKING:
    from energyalign.experiments.data.images import ImageSet
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class NearestMeanOfExemplars(Corrector):
    """Predict the class of the nearest mean, ``argmin_k |phi(x) - m_k|``, without the head.

    phi are features normalised to length one. ``m_k`` is the mean of phi over the exemplars of class k plus the mean
    over their mirror images, normalised again. This follows the original's code; its paper has no mirror images and
    does not normalise means. Data that are not mirrored in training, such as digits, are not mirrored here either.

    New classes, too, are represented by the exemplars that are kept after the step.

    References
    ----------
    Rebuffi et al. 2017, iCaRL: Incremental Classifier and Representation Learning.
    """

    first_step: ClassVar[int] = 1

    def check(self, setting: RunSetting) -> None:
        refuse_one_step(setting, "nme")
        refuse_no_memory(setting)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch
        from torch.nn import functional as F

        from energyalign.experiments.nets.corrected_heads import NearestMeans
        from energyalign.experiments.nets.network import Mirrored

        exemplars = trained.exemplars
        assert exemplars is not None  # a run in steps has a memory
        views = [trained.features(exemplars)]
        if _may_be_mirrored(exemplars):
            views.append(trained.features(exemplars, Mirrored(trained.for_inference.backbone)))
        lengths_of_one = (F.normalize(torch.from_numpy(view).double()).numpy() for view in views)
        means = np.mean([class_means(view, exemplars.labels, trained.n_seen) for view in lengths_of_one], axis=0)
        head = NearestMeans(F.normalize(torch.from_numpy(means)).float())
        return Corrected(trained.with_head(head), gives_logits=False)


def _may_be_mirrored(images: ImageSet) -> bool:
    """Return whether training mirrors such images."""
    return bool(getattr(images.preparation, "flip", True))
