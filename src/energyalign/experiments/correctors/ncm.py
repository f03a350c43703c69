"""NCM: the nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints
from energyalign.experiments.correctors.base import Corrected, Corrector, RunSetting, refuse_no_memory

if TYPE_CHECKING:
    from energyalign.experiments.engine.config import EvidencePlan
    from energyalign.experiments.engine.trained import Trained


@dataclass(frozen=True)
class NearestClassMean(Corrector):
    """Scores ``-|x - m_i|^2`` of features x, without the head, so that the number of images of a class does not matter.

    Features are centred by the mean of all training features and normalised to length one; ``m_i`` is the mean over the
    training images of class i, not normalised again.

    Where classes come in steps, the means of old classes, and their share in the centre, are computed by the present
    network from the remaining exemplars, a small sample. The learner ``slda`` keeps the means of all samples.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    first_step: ClassVar[int] = 1

    def check(self, setting: RunSetting) -> None:
        refuse_no_memory(setting)

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        import torch

        from energyalign.experiments.nets.corrected_heads import NearestMeans

        centre = trained.train_features.mean(axis=0, dtype=np.float64)
        points = directions(trained.train_features, centre)
        means = class_means(points, trained.train.labels, trained.n_seen)
        head = NearestMeans(torch.from_numpy(means), torch.from_numpy(centre))
        return Corrected(trained.with_head(head), gives_logits=False)


def directions(features: npt.NDArray[Any], centre: Floats) -> Floats:
    """Return features relative to the centre, normalised to length one; zero stays zero."""
    centred = features - centre
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    result: Floats = centred / np.where(lengths == 0.0, 1.0, lengths)
    return result


def class_means(features: npt.NDArray[Any], labels: Ints, n_classes: int) -> Floats:
    """Compute class means, (n_classes, n_features), in double precision. Every class must have an image."""
    sums = np.zeros((n_classes, features.shape[1]))
    np.add.at(sums, labels, features)
    return sums / np.bincount(labels, minlength=n_classes)[:, None]
