"""From evidence to shifts: target priors, anchors, and the information stored with the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from energyalign.core.clusters import Clusters
from energyalign.core.errors import BadValueError, EnergyAlignError, UntrustedEstimateWarning
from energyalign.core.estimators import ESTIMATORS
from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts

COUNTS = [200.0, 60, 20, 7]


def random_logits(seed: int, n_samples: int = 60) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_samples, 4)) * 0.7 + np.log(COUNTS)


class TestTargetPrior:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_the_logarithm_of_the_target_is_added(self, estimator: str, seed: int) -> None:
        target = np.random.default_rng(seed).dirichlet(np.ones(4)) + 0.01
        evidence = Evidence.from_arrays(random_logits(seed), counts=COUNTS)
        uniform = fit_shifts(evidence, estimator=estimator, clusters="per-class")
        aimed = fit_shifts(evidence, estimator=estimator, clusters="per-class", target_prior=target)
        added = aimed.values - uniform.values
        np.testing.assert_allclose(added, np.log(target / target.sum() * 4), atol=1e-12)
        np.testing.assert_allclose(aimed.target_prior, target / target.sum(), rtol=1e-13)

    @pytest.mark.parametrize("labelled", [False, True])
    @given(seed=st.integers(0, 2**32 - 1))
    def test_marginal_meets_any_target_on_evidence_weighted_to_it(self, labelled: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        logits = random_logits(seed)
        labels = np.concatenate([np.arange(4), rng.integers(0, 4, size=56)]) if labelled else None
        target = rng.dirichlet(np.ones(4)) * 0.96 + 0.01
        evidence = Evidence.from_arrays(logits, labels, counts=COUNTS)
        shifts = fit_shifts(evidence, estimator="marginal", clusters="per-class", target_prior=target)
        balanced = softmax(logits + shifts.with_target(None).values, axis=1)
        # A sample stands for as many target samples as the balanced model finds it likelier in the target data.
        base = np.ones(60) if labels is None else 1 / np.bincount(labels)[labels]
        weights = base / base.sum() * 4 * (balanced @ target)
        np.testing.assert_allclose(weights @ shifts.predict_proba(logits), target, atol=1e-9)

    @pytest.mark.parametrize("target", [[1, 1, 1], [1, 0, 1, 1], [1, -1, 1, 1]])
    def test_a_wrong_target_is_refused_before_any_work(self, target: list[float]) -> None:
        evidence = Evidence.from_blocks(_must_not_be_read, 5, 4)
        with pytest.raises(EnergyAlignError, match="target prior must"):
            fit_shifts(evidence, target_prior=target)


def _must_not_be_read() -> Any:
    raise AssertionError("the evidence was read")


class TestAnchor:
    @pytest.mark.parametrize("estimator", ["lse", "marginal", "shrunk", "prior"])
    @given(seed=st.integers(0, 2**32 - 1))
    def test_changes_neither_predictions_nor_probabilities(self, estimator: str, seed: int) -> None:
        evidence = Evidence.from_arrays(random_logits(seed), counts=COUNTS)
        fresh = random_logits(seed + 1, n_samples=200)
        corrected = [
            fit_shifts(evidence, estimator=estimator, clusters=Clusters((0, 1, 2, 1), anchor)) for anchor in range(3)
        ]
        for shifts in corrected[1:]:
            assert np.any(shifts.values != corrected[0].values)
            np.testing.assert_allclose(shifts.predict_proba(fresh), corrected[0].predict_proba(fresh), atol=1e-9)
            np.testing.assert_array_equal(shifts.predict(fresh), corrected[0].predict(fresh))

    def test_is_the_rarest_class_unless_said_otherwise(self) -> None:
        evidence = Evidence.from_arrays(random_logits(0), counts=[60, 7, 200, 20])
        for estimator in ("lse", "marginal", "shrunk", "prior"):
            for clusters in ("per-class", "monotone", 3):
                shifts = fit_shifts(evidence, estimator=estimator, clusters=clusters)
                assert shifts.values[1] == 0


class TestWhatIsKept:
    def test_where_the_shifts_came_from(self) -> None:
        logits = random_logits(1)
        labels = np.arange(60) % 4
        evidence = Evidence.from_arrays(
            logits, labels, repeats=np.full(60, 2), counts=COUNTS, kind="held-out", class_names=["a", "b", "c", "d"]
        )
        shifts = fit_shifts(evidence, estimator="prior", clusters="per-class", tau=0.5)
        np.testing.assert_allclose(shifts.energies, logsumexp(logits, axis=0) + np.log(2), rtol=1e-13)
        effective = np.exp(2 * logsumexp(logits, axis=0) - logsumexp(2 * logits, axis=0)) * 2
        np.testing.assert_allclose(shifts.effective_samples, effective, rtol=1e-12)
        assert shifts.counts.tolist() == COUNTS
        assert (shifts.estimator, shifts.tau, shifts.evidence_kind, shifts.n_samples) == ("prior", 0.5, "held-out", 120)
        assert shifts.class_names == ("a", "b", "c", "d")
        assert shifts.strength == 1
        assert shifts.selection is None
        assert shifts.concerns == ()

    def test_aligned_energies_of_lse_are_equal(self) -> None:
        shifts = fit_shifts(Evidence.from_arrays(random_logits(2)), estimator="lse", clusters="per-class")
        assert np.ptp(shifts.aligned_energies) < 1e-12


class TestClassesWithoutEvidence:
    labels = np.array([0, 1, 3] * 20)

    @pytest.mark.parametrize("estimator", ["lse", "marginal"])
    def test_alone_is_an_error_and_shared_is_a_warning(self, estimator: str) -> None:
        evidence = Evidence.from_arrays(random_logits(3), self.labels, counts=COUNTS)
        with pytest.raises(EnergyAlignError, match="no evidence for class 2"):
            fit_shifts(evidence, estimator=estimator, clusters="per-class")
        for clusters in ("monotone", 2):
            with pytest.warns(UntrustedEstimateWarning, match="no labelled evidence for class 2"):
                shifts = fit_shifts(evidence, estimator=estimator, clusters=clusters)
            assert min(shifts.values[[1, 3]]) <= shifts.values[2] <= max(shifts.values[[1, 3]])

    def test_prior_needs_no_evidence(self) -> None:
        evidence = Evidence.from_arrays(random_logits(3), self.labels, counts=COUNTS)
        shifts = fit_shifts(evidence, estimator="prior", clusters="per-class")
        np.testing.assert_allclose(shifts.values, np.log(COUNTS[3]) - np.log(COUNTS), atol=1e-14)


def test_torch_evidence_is_fitted_where_it_lives(guarded: Callable[[np.ndarray], Any]) -> None:
    labels = np.arange(60) % 4
    logits = random_logits(4) + 2 * np.eye(4)[labels]
    options: dict[str, Any] = {"counts": COUNTS, "kind": "held-out"}
    for estimator in ("shrunk", "marginal", "lse"):
        asked: dict[str, Any] = {"estimator": estimator, "clusters": "per-class"}
        expected = fit_shifts(Evidence.from_arrays(logits, labels, **options), **asked)
        shifts = fit_shifts(Evidence.from_arrays(guarded(logits), torch.tensor(labels), **options), **asked)
        np.testing.assert_allclose(shifts.values, expected.values, atol=1e-9)
    # `auto` scores a limited part of the evidence, as NumPy arrays.
    expected = fit_shifts(Evidence.from_arrays(logits, labels, **options))
    shifts = fit_shifts(Evidence.from_arrays(torch.tensor(logits), torch.tensor(labels), **options))
    np.testing.assert_allclose(shifts.values, expected.values, atol=1e-9)
    assert shifts.selection.chosen == expected.selection.chosen
    assert shifts.strength == expected.strength


def test_logits_of_ten_thousand_are_fitted_without_a_murmur() -> None:
    logits = random_logits(5) + 1e4
    for estimator in ("lse", "marginal", "shrunk", "auto"):
        shifts = fit_shifts(Evidence.from_arrays(logits, counts=COUNTS), estimator=estimator)
        plain = fit_shifts(Evidence.from_arrays(logits - 1e4, counts=COUNTS), estimator=estimator)
        np.testing.assert_allclose(shifts.values, plain.values, atol=1e-7)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "auto"])
@pytest.mark.parametrize("clusters", ["auto", "per-class"])
@pytest.mark.parametrize("sample", [17, 117])  # among the first rows, which are inspected, and beyond them
def test_a_bad_value_is_refused_by_all(estimator: str, clusters: str, sample: int) -> None:
    logits = random_logits(6, 120)
    logits[sample, 3] = np.nan
    with pytest.raises(BadValueError, match=f"^logits has NaN at sample {sample}, class 3"):
        fit_shifts(Evidence.from_arrays(logits, counts=COUNTS), estimator=estimator, clusters=clusters)


def test_the_warning_points_at_the_caller() -> None:
    logits = random_logits(7) * 40
    with pytest.warns(UntrustedEstimateWarning) as caught:
        fit_shifts(Evidence.from_arrays(logits), estimator="lse", clusters="per-class")
    assert caught[0].filename == __file__
