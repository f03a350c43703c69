"""NCM: the nearest class mean; and class means, for other correctors too."""

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
    """Logits ``-|x - m_i|^2`` from features x, the head left out: the number of images of a class plays no part.

    Features are centred by the mean of all training features and brought to length one; ``m_i`` is the mean of those
    of the training images of class i, not brought to length one again.

    Where classes come in steps, the images of old classes are gone: their means, and their share in the centre, are
    those of the exemplars that are left, under the network of today. So a mean of an old class is that of a small
    sample, also on features that never change; the learner ``slda`` keeps the means of all samples instead.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    first_step: ClassVar[int] = 1

    def check(self, setting: RunSetting) -> None:
        """Means take images of every class."""
        refuse_no_memory(setting, "the nearest class mean needs training images of every class seen")

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """Nearest means in place of the head."""
        import torch

        from energyalign.experiments.nets.corrected_heads import NearestMeans

        centre = trained.train_features.mean(axis=0, dtype=np.float64)
        points = directions(trained.train_features, centre)
        means = class_means(points, trained.train.labels, trained.n_seen)
        head = NearestMeans(torch.from_numpy(means), torch.from_numpy(centre))
        return Corrected(trained.with_head(head), gives_logits=False)


def directions(features: npt.NDArray[Any], centre: Floats) -> Floats:
    """From the centre to the features, of length one; a feature at the centre has none and stays there."""
    centred = features - centre
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    result: Floats = centred / np.where(lengths == 0.0, 1.0, lengths)
    return result


def class_means(features: npt.NDArray[Any], labels: Ints, n_classes: int) -> Floats:
    """Of shape (n_classes, n_features), in double precision. Every class has an image: without one it was refused."""
    sums = np.zeros((n_classes, features.shape[1]))
    np.add.at(sums, labels, features)
    return sums / np.bincount(labels, minlength=n_classes)[:, None]
