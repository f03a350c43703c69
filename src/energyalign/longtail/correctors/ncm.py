"""NCM: the nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats
from energyalign.experiment.class_means import class_means
from energyalign.longtail.correctors.base import Corrected

if TYPE_CHECKING:
    from energyalign.experiment.evidence import EvidencePlan
    from energyalign.longtail.setting import Setting
    from energyalign.longtail.trained import Trained


@dataclass(frozen=True)
class NearestClassMean:
    """Logits ``-|x - m_i|^2`` from features x, the head left out: the number of images of a class plays no part.

    Features are centred by the mean of all training features and brought to length one; ``m_i`` is the mean of those
    of the training images of class i, not brought to length one again.

    References
    ----------
    Kang et al. 2020, Decoupling Representation and Classifier for Long-Tailed Recognition.
    """

    @property
    def reads_evidence(self) -> bool:
        """It looks at all training images as they are."""
        return False

    def check(self, setting: Setting) -> None:
        """Every network has features."""

    def correct(self, trained: Trained, plan: EvidencePlan) -> Corrected:  # noqa: ARG002
        """Minus the squared distances of the test images."""
        centre = trained.train_features.mean(axis=0, dtype=np.float64)
        labels, n_classes = trained.data.train.labels, trained.data.train.n_classes
        means = class_means(directions(trained.train_features, centre), labels, n_classes)
        points = directions(trained.test_features, centre)
        squared = np.square(points).sum(1)[:, None] - 2.0 * points @ means.T + np.square(means).sum(1)
        return Corrected((-squared).astype(np.float32))


def directions(features: npt.NDArray[Any], centre: Floats) -> Floats:
    """From the centre to the features, of length one; a feature at the centre has none and stays there."""
    centred = features - centre
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    result: Floats = centred / np.where(lengths == 0.0, 1.0, lengths)
    return result
