"""The nearest class mean, by hand and compared with scikit-learn's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.neighbors import NearestCentroid
from untrained_run import images_of_test, scores_of_test, untrained_run

from energyalign.experiments.correctors.ncm import NearestClassMean, class_means, directions
from energyalign.experiments.engine.config import EvidencePlan


def test_class_means_by_hand() -> None:
    features = np.array([[1, 2], [3, 6], [-1, 0], [5, 1]], dtype=np.float32)
    means = class_means(features, np.array([1, 1, 0, 1]), 2)
    assert means.tolist() == [[-1, 0], [3, 3]]
    assert means.dtype == np.float64


def test_directions_from_the_centre() -> None:
    features = np.array([[4.0, 5.0], [1.0, 1.0], [1.0, -1.0]], dtype=np.float32)
    np.testing.assert_allclose(directions(features, np.ones(2)), [[0.6, 0.8], [0, 0], [0, -1]])


def test_as_nearest_centroid_of_scikit_learn(tmp_path: Path) -> None:
    trained = untrained_run(tmp_path)
    logits = scores_of_test(trained, NearestClassMean().correct(trained, EvidencePlan()))

    def transformed(features: np.ndarray) -> np.ndarray:
        centred = features.astype(np.float64) - trained.train_features.astype(np.float64).mean(0)
        return centred / np.linalg.norm(centred, axis=1, keepdims=True)

    reference = NearestCentroid().fit(transformed(trained.train_features), trained.train.labels)
    points = transformed(trained.features(images_of_test(trained)))
    np.testing.assert_array_equal(logits.argmax(1), reference.predict(points))
    squared = ((points[:, None] - reference.centroids_[None]) ** 2).sum(-1)
    np.testing.assert_allclose(-logits, squared, rtol=1e-4, atol=1e-6)
    assert not NearestClassMean().reads_evidence
