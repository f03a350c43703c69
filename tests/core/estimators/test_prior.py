"""Logit adjustment: by hand, and compared with measured energies where both must agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.lse import Lse
from energyalign.core.estimators.prior import Prior
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import SharingChoice, make_sharing

COUNTS = [60.0, 30.0, 10.0]


def shifts_of(prior: Prior, clusters: Clusters) -> np.ndarray:
    return prior.estimate(Evidence.from_arrays(np.zeros((2, 3)), counts=COUNTS), clusters).shifts


def test_minus_the_logarithm_of_the_training_prior() -> None:
    # log(10/60), log(10/30), 0
    expected = [-1.791759469228055, -1.0986122886681098, 0.0]
    assert shifts_of(Prior(), Clusters((0, 1, 2), anchor=2)) == pytest.approx(expected, abs=1e-14)
    # Up to the anchor's constant, that is -log π itself.
    assert np.ptp(np.array(expected) + np.log([0.6, 0.3, 0.1])) == pytest.approx(0, abs=1e-14)


def test_tau_scales() -> None:
    half, whole = (shifts_of(Prior(tau), Clusters((0, 1, 2), anchor=2)) for tau in (0.5, 1.0))
    np.testing.assert_allclose(half, whole / 2, rtol=1e-14)
    assert shifts_of(Prior(0.0), Clusters((0, 1, 2))).tolist() == [0, 0, 0]


def test_clusters_take_the_mean_of_their_logarithms() -> None:
    # log 10 - (log 60 + log 30) / 2 = -log √18
    assert shifts_of(Prior(), Clusters((0, 0, 1), anchor=1)) == pytest.approx(
        [-1.4451858789480825, -1.4451858789480825, 0.0], abs=1e-14
    )


def test_nothing_is_uncertain_about_known_counts() -> None:
    evidence = Evidence.from_arrays(np.zeros((2, 3)), counts=COUNTS)
    assert Prior().estimate(evidence, Clusters.per_class(3)).standard_errors.tolist() == [0, 0, 0]


@pytest.mark.parametrize("sharing", ["per-class", "monotone", 2, [0, 0, 1, 1, 2]])
@given(seed=st.integers(0, 2**32 - 1), constant=st.floats(-100, 100))
def test_equals_lse_when_energies_are_the_log_prior_plus_a_constant(
    sharing: SharingChoice, seed: int, constant: float
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.permutation([1000.0, 300, 90, 30, 7])
    logits = rng.normal(size=(40, 5)) * 3
    logits += np.log(counts / counts.sum()) + constant - logsumexp(logits, axis=0)
    evidence = Evidence.from_arrays(logits, counts=counts)
    measured, known = (e.estimate(evidence, make_sharing(sharing, evidence)).shifts for e in (Lse(), Prior()))
    np.testing.assert_allclose(measured, known, atol=1e-11)


def test_counts_are_needed() -> None:
    with pytest.raises(EnergyAlignError, match="'prior' needs the training counts per class: give counts"):
        Prior().estimate(Evidence.from_arrays(np.zeros((2, 3))), Clusters.per_class(3))


@pytest.mark.parametrize("tau", [np.nan, np.inf, -np.inf])
def test_tau_must_be_a_number(tau: float) -> None:
    with pytest.raises(EnergyAlignError, match="tau must be a finite number"):
        Prior(tau)


def test_a_masked_class_does_not_enter_the_mean_of_its_cluster() -> None:
    counts = np.array([100.0, 50, 10, 5])
    logits = np.log(counts)[None, :].repeat(3, axis=0)
    logits[:, 1] = -np.inf
    evidence, clusters = Evidence.from_arrays(logits, counts=counts), Clusters((0, 0, 1, 1), 1)
    by_counts, measured = (estimator.energies(evidence, clusters).values for estimator in (Prior(), Lse()))
    assert by_counts[1] - by_counts[0] == pytest.approx(measured[1] - measured[0])
