"""The nearest mean of exemplars, by which iCaRL predicts."""

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

    first_step: ClassVar[int] = 1

    def check(self, setting: RunSetting) -> None:
        """Means take exemplars."""
        refuse_one_step(setting, "nme")
        refuse_no_memory(setting, "the nearest mean of exemplars needs exemplars")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """Nearest means in place of the head."""
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
    """Whether the mirror image of such an image is one of the same class: whether training takes it for one."""
    return bool(getattr(images.preparation, "flip", True))
