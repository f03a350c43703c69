"""Means of features, class by class."""

from __future__ import annotations

import numpy as np

from energyalign.experiments.correctors.class_means import class_means


def test_by_hand() -> None:
    features = np.array([[1, 2], [3, 6], [-1, 0], [5, 1]], dtype=np.float32)
    means = class_means(features, np.array([1, 1, 0, 1]), 2)
    assert means.tolist() == [[-1, 0], [3, 3]]
    assert means.dtype == np.float64
