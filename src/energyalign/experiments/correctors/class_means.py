"""The mean feature of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from energyalign.core.arrays import Floats, Ints


def class_means(features: npt.NDArray[Any], labels: Ints, n_classes: int) -> Floats:
    """Of shape (n_classes, n_features), in double precision. Every class has an image: without one it was refused."""
    sums = np.zeros((n_classes, features.shape[1]))
    np.add.at(sums, labels, features)
    return sums / np.bincount(labels, minlength=n_classes)[:, None]
