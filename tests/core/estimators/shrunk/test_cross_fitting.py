"""Cross-fitting of `shrunk`: the most probable biases at the temperature and variance of the fit to all samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from energyalign.core.clusters import Clusters
from energyalign.core.estimators.base import Estimator
from energyalign.core.estimators.shrunk import Shrunk
from energyalign.core.estimators.shrunk.cross_fitting import shifts_without_folds
from energyalign.core.estimators.shrunk.estimator import fit_posterior
from energyalign.core.evidence import Evidence

COUNTS = np.array([400.0, 100.0, 30.0, 8.0])


def samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 4
    return rng.normal(size=(n, 4)) + 2.0 * np.eye(4)[labels] + np.log(COUNTS), labels


@pytest.mark.parametrize("diagonal", [False, True])
def test_biases_maximise_the_posterior_of_the_rest(diagonal: bool) -> None:
    logits, labels = samples(80)
    repeats = np.where(labels == 1, 2.0, 1.0)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out", repeats=repeats)
    clusters, folds = Clusters.per_class(4, COUNTS), np.arange(80) // 4 % 5
    found = fit_posterior(evidence, clusters)
    if diagonal:  # as for very many classes
        found = found._replace(curvature=np.diag(found.curvature))
    result = shifts_without_folds(found, evidence, clusters, folds)
    depth = np.log(repeats.sum() * 4) / np.exp(found.log_floor_scale)  # n samples cannot tell smaller posteriors apart
    floored = np.maximum(logits - logits.max(axis=1, keepdims=True), -depth)
    centred = np.log(COUNTS) - np.log(COUNTS).mean()
    precision = np.linalg.inv(found.variance * np.eye(4) + np.outer(centred, centred))
    for fold, shifts in enumerate(result):
        rest = folds != fold
        m = np.bincount(labels[rest], repeats[rest])

        def loss(biases: np.ndarray, rest: np.ndarray = rest, m: np.ndarray = m) -> float:
            scores = log_softmax(found.temperature * floored[rest] + biases + np.log(m), axis=1)
            likelihood = repeats[rest] @ scores[np.arange(rest.sum()), labels[rest]]
            away = biases + centred
            return float(-found.scale * likelihood + 0.5 * away @ precision @ away)

        expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x / found.temperature
        np.testing.assert_allclose(shifts, expected, atol=2e-3)


def test_many_samples_say_nearly_the_same_without_a_fold() -> None:
    logits, labels = samples(4_000)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
    clusters, folds = Clusters.per_class(4, COUNTS), np.arange(4_000) // 4 % 5
    by_all = Shrunk().leave_out(evidence, clusters, evidence, folds)
    anew = Estimator.leave_out(Shrunk(), evidence, clusters, evidence, folds)
    for (shifts, temperature), (expected, expected_temperature) in zip(by_all, anew, strict=True):
        np.testing.assert_allclose(shifts, expected, atol=0.05)
        assert temperature == pytest.approx(expected_temperature, abs=0.1)
    assert not np.array_equal(by_all[0][0], by_all[1][0])


def test_few_samples_are_fitted_anew() -> None:
    logits, labels = samples(200)
    evidence = Evidence.from_arrays(logits, labels, counts=COUNTS, kind="held-out")
    clusters, folds = Clusters.per_class(4, COUNTS), np.arange(200) // 4 % 5
    found = Shrunk().leave_out(evidence, clusters, evidence, folds)
    expected = [Shrunk().estimate(evidence.subset(folds != fold), clusters).shifts for fold in range(5)]
    np.testing.assert_array_equal([shifts for shifts, _ in found], expected)
