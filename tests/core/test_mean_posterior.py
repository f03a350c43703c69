"""Moments of the posterior over the evidence, compared with direct formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import MeanPosterior

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(50, 4)) * 3
LABELS = np.minimum(np.arange(50) % 7, 3)
REPEATS = RNG.integers(1, 4, size=50)
BIASES = np.array([0.5, -1.0, 2.0])
SHARED = Clusters((0, 1, 1, 2))


def model(clusters: Clusters = SHARED, logits: Any = LOGITS, temperature: float = 1.0) -> MeanPosterior:
    return MeanPosterior(Evidence.from_arrays(logits, LABELS, repeats=REPEATS), clusters, temperature)


def shares() -> np.ndarray:
    weights = REPEATS / np.bincount(LABELS, weights=REPEATS)[LABELS]
    return weights / weights.sum()


def posterior(temperature: float = 1.0) -> np.ndarray:
    """Return the posterior of each sample and cluster."""
    per_class = softmax((LOGITS + BIASES[SHARED.indices]) / temperature, axis=1)
    return np.column_stack([per_class[:, 0], per_class[:, 1] + per_class[:, 2], per_class[:, 3]])


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_moments(temperature: float) -> None:
    moments = model(temperature=temperature).moments(BIASES, curvature=True)
    p, w = posterior(temperature), shares()
    partition = logsumexp((LOGITS + BIASES[SHARED.indices]) / temperature, axis=1)
    assert moments.log_partition == pytest.approx(w @ partition, rel=1e-13)
    np.testing.assert_allclose(moments.mass, w @ p, rtol=1e-13)
    expected = sum(w[s] * (np.diag(p[s]) - np.outer(p[s], p[s])) for s in range(50))
    np.testing.assert_allclose(moments.curvature, expected, atol=1e-15)


def test_mass_and_curvature_are_the_derivatives_they_claim_to_be() -> None:
    step, moments = 1e-5, model().moments(BIASES, curvature=True)
    for k in range(3):
        up, down = (model().moments(BIASES + sign * step * np.eye(3)[k], curvature=False) for sign in (1, -1))
        assert (up.log_partition - down.log_partition) / (2 * step) == pytest.approx(moments.mass[k], rel=1e-8)
        np.testing.assert_allclose((up.mass - down.mass) / (2 * step), moments.curvature[k], atol=1e-9)


def test_the_curvature_times_a_vector_needs_no_matrix() -> None:
    moments = model().moments(BIASES, curvature=True)
    vector = np.array([1.0, -2.0, 0.3])
    product = model().curvature_times(BIASES, moments.mass, vector)
    np.testing.assert_allclose(product, moments.curvature @ vector, atol=1e-15)


@pytest.mark.parametrize("biases", [BIASES, 100 * BIASES, 1000 * BIASES])
def test_kept_exponentials_change_nothing(biases: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, vector = model(), np.array([1.0, -2.0, 0.3])
    assert kept.is_small
    kept.moments(np.zeros(3), curvature=False)  # exponentials are cached here
    found = kept.moments(biases, curvature=True)
    monkeypatch.setattr("energyalign.core.mean_posterior.MANY_PASSES", 1)
    read_again = model()
    assert not read_again.is_small
    expected = read_again.moments(biases, curvature=True)
    assert found.log_partition == pytest.approx(expected.log_partition, rel=1e-13)
    np.testing.assert_allclose(found.mass, expected.mass, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(found.curvature, expected.curvature, atol=1e-15)
    np.testing.assert_allclose(
        kept.curvature_times(biases, found.mass, vector),
        read_again.curvature_times(biases, expected.mass, vector),
        atol=1e-15,
    )


def test_log_mass_where_the_mass_underflows() -> None:
    biases = np.array([0.0, -2000.0, 900.0])
    partition = logsumexp(LOGITS + biases[SHARED.indices], axis=1, keepdims=True)
    per_class = logsumexp(LOGITS + biases[SHARED.indices] - partition, axis=0, b=shares()[:, None])
    expected = [per_class[0], np.logaddexp(per_class[1], per_class[2]), per_class[3]]
    assert model().moments(biases, curvature=False).mass[1] == 0
    np.testing.assert_allclose(model().log_mass(biases), expected, rtol=1e-13, atol=1e-13)


def test_shares_of_samples_that_stand_for_others() -> None:
    parts = [samples for _, samples in model().at(BIASES).posteriors(model().evidence.blocks())]
    at = model().at(BIASES)
    np.testing.assert_allclose(np.concatenate([at.shares(part) for part in parts]), shares(), rtol=1e-13)
    # Σ repeats · (weight / total)²: a row seen r times counts as r samples, not as one of weight r.
    squared = np.concatenate([at.squared_shares(part) for part in parts])
    np.testing.assert_allclose(squared, shares() ** 2 / REPEATS, rtol=1e-13)


def test_spread_is_the_mean_depth_of_a_logit_and_leaves_masked_ones_out() -> None:
    # Two equal logits are log 2 below the logarithm of the sum of their exponentials.
    logits = np.array([[0.0, 0.0, -np.inf], [7.0, 7.0, -np.inf]])
    assert MeanPosterior(Evidence.from_arrays(logits), Clusters.per_class(3)).spread() == pytest.approx(np.log(2))
    far = np.array([[0.0, -1000.0]])
    assert MeanPosterior(Evidence.from_arrays(far), Clusters.per_class(2)).spread() == pytest.approx(500)


@pytest.mark.parametrize("make", ["strict", "guarded"])
def test_other_namespaces_give_the_same(make: str, guarded: Callable[[np.ndarray], Any]) -> None:
    logits = array_api_strict.asarray(LOGITS) if make == "strict" else guarded(LOGITS)
    other, same = (m.moments(BIASES, curvature=True) for m in (model(logits=logits), model()))
    np.testing.assert_allclose(other.mass, same.mass, rtol=1e-13)
    np.testing.assert_allclose(other.curvature, same.curvature, atol=1e-15)
    np.testing.assert_allclose(model(logits=logits).log_mass(BIASES), model().log_mass(BIASES), rtol=1e-12)
    assert model(logits=logits).spread() == pytest.approx(model().spread(), rel=1e-13)


def test_bad_values_are_named_by_their_sample() -> None:
    logits = np.zeros((300_000, 2))  # more than one piece
    logits[290_001, 1] = np.nan
    bad = MeanPosterior(Evidence.from_arrays(logits), Clusters.per_class(2))
    with pytest.raises(EnergyAlignError, match="NaN at sample 290001, class 1"):
        bad.moments(np.zeros(2), curvature=False)
