"""Equal mean posteriors: solved to rounding, equal to maximum likelihood, with correct standard errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import Estimate
from energyalign.core.estimators.marginal import Marginal
from energyalign.core.evidence import Evidence


def fit(logits: Any, labels: Any = None, clusters: Clusters | None = None, **options: Any) -> Estimate:
    evidence = Evidence.from_arrays(logits, labels, **options)
    return Marginal().estimate(evidence, clusters or Clusters.per_class(logits.shape[1]))


def balancing_weights(labels: np.ndarray) -> np.ndarray:
    weights = 1 / np.bincount(labels)[labels]
    return weights / weights.sum()


class TestMeanPosterior:
    @given(
        n_classes=st.integers(2, 8),
        n_samples=st.integers(1, 60),
        exponent=st.floats(-1, 2),
        seed=st.integers(0, 2**32 - 1),
        labelled=st.booleans(),
    )
    def test_equals_one_over_the_number_of_classes(
        self, n_classes: int, n_samples: int, exponent: float, seed: int, labelled: bool
    ) -> None:
        rng = np.random.default_rng(seed)
        scale = 10**exponent
        logits = scale * (rng.normal(size=(n_samples + n_classes, n_classes)) + rng.normal(size=n_classes))
        # Unequal on purpose: most labels are of the first classes.
        extra = np.minimum(rng.geometric(0.5, size=n_samples) - 1, n_classes - 1)
        labels = np.concatenate([np.arange(n_classes), extra])
        shifts = fit(logits, labels if labelled else None).shifts
        weights = balancing_weights(labels) if labelled else np.full(len(logits), 1 / len(logits))
        # 1e-10, and at scale 100 the rounding error of the logits.
        tolerance = max(1e-10, 1e-12 * np.ptp(logits))
        assert np.max(np.abs(weights @ softmax(logits + shifts, axis=1) - 1 / n_classes)) <= 1.01 * tolerance

    @pytest.mark.parametrize("scale", [1e3, 1e4])
    @pytest.mark.parametrize(("n_samples", "n_classes"), [(1, 3), (30, 3), (200, 10), (300, 40)])
    def test_extreme_logits_converge(self, scale: float, n_samples: int, n_classes: int) -> None:
        logits = scale * np.random.default_rng(0).normal(size=(n_samples, n_classes))
        shifts = fit(logits).shifts
        assert np.max(np.abs(softmax(logits + shifts, axis=1).mean(0) - 1 / n_classes)) <= 1e-12 * np.ptp(logits)

    def test_a_constant_offset_of_ten_thousand(self) -> None:
        logits = np.random.default_rng(0).normal(size=(50, 4)) + np.array([1e4, -1e4, 0, 5e3])
        shifts = fit(logits).shifts
        assert np.max(np.abs(softmax(logits + shifts, axis=1).mean(0) - 0.25)) <= 1e-8

    def test_clusters_get_their_share_by_their_number_of_classes(self) -> None:
        logits = np.random.default_rng(1).normal(size=(80, 6)) * 4
        clusters = Clusters((0, 1, 1, 2, 2, 2), anchor=1)
        shifts = fit(logits, clusters=clusters).shifts
        mass = clusters.sums(softmax(logits + shifts, axis=1).mean(0))
        np.testing.assert_allclose(mass, [1 / 6, 2 / 6, 3 / 6], atol=1e-10)
        assert len(set(shifts)) == 3
        assert np.all(shifts[clusters.indices == 1] == 0)

    def test_more_clusters_than_a_matrix_is_kept_for(self) -> None:
        n_classes = 1100
        rng = np.random.default_rng(2)
        logits = 2 * rng.normal(size=(600, n_classes)) + np.linspace(0, 4, n_classes)
        result = fit(logits)
        np.testing.assert_allclose(softmax(logits + result.shifts, axis=1).mean(0), 1 / n_classes, atol=1e-10)
        assert np.all(np.isfinite(result.standard_errors))

    @given(seed=st.integers(0, 2**32 - 1), size=st.floats(0, 1e3))
    def test_a_constant_added_to_one_sample_changes_nothing(self, seed: int, size: float) -> None:
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(25, 4)) * 3
        moved = logits + size * rng.normal(size=(25, 1))
        np.testing.assert_allclose(fit(moved).shifts, fit(logits).shifts, atol=1e-7)
        np.testing.assert_allclose(fit(log_softmax(logits, axis=1)).shifts, fit(logits).shifts, atol=1e-7)

    def test_single_precision_and_torch_give_the_same(self, guarded: Callable[[np.ndarray], Any]) -> None:
        logits = (np.random.default_rng(3).normal(size=(300, 5)) * 4).astype(np.float32)
        for labels in (np.arange(300) % 5, None):
            expected = fit(logits.astype(np.float64), labels)
            for block in (logits, torch.tensor(logits), torch.tensor(logits).double(), guarded(logits)):
                result = fit(block, labels)
                np.testing.assert_allclose(result.shifts, expected.shifts, atol=1e-8)
                np.testing.assert_allclose(result.standard_errors, expected.standard_errors, rtol=1e-8)


def most_likely_biases(logits: np.ndarray, labels: np.ndarray, clusters: Clusters) -> np.ndarray:
    """Return the biases per cluster that maximise the class-balanced likelihood, found by torch's L-BFGS."""
    biases = torch.zeros(clusters.n_clusters, dtype=torch.float64, requires_grad=True)
    fixed, truth, weights = (torch.tensor(a) for a in (logits, labels, balancing_weights(labels)))
    optimiser = torch.optim.LBFGS(
        [biases], lr=1, max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        losses = torch.nn.functional.cross_entropy(fixed + biases[clusters.indices], truth, reduction="none")
        total = weights @ losses
        total.backward()
        return total

    optimiser.step(loss)
    per_class = biases.detach().numpy()[clusters.indices]
    return per_class - per_class[clusters.indices == clusters.anchor][0]


class TestMaximumLikelihood:
    @pytest.mark.parametrize("clusters", [Clusters.per_class(5), Clusters((0, 1, 1, 2, 0), anchor=2)])
    @pytest.mark.parametrize("per_class", [[40] * 5, [100, 50, 20, 10, 5]])
    def test_of_a_labelled_sample(self, simulate: Callable[..., Any], per_class: list[int], clusters: Clusters) -> None:
        logits, labels = simulate([500, 200, 90, 20, 10], per_class, seed=4)
        # Mis-specified on purpose: the equality comes from the optimisation, not from a correct model.
        logits = 1.7 * logits + 0.3 * logits[:, ::-1]
        expected = most_likely_biases(logits, labels, clusters)
        np.testing.assert_allclose(fit(logits, labels, clusters).shifts, expected, atol=1e-6)

    def test_by_another_optimiser(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate([50, 20, 5], 30, seed=5)

        def loss(free: np.ndarray) -> float:
            return float(-log_softmax(logits + np.array([0, *free]), axis=1)[np.arange(90), labels].mean())

        free = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15}).x
        np.testing.assert_allclose(fit(logits, labels).shifts, [0, *free], atol=1e-6)


class TestWhatCannotBeSolved:
    def test_a_class_that_cannot_reach_its_share(self) -> None:
        logits = np.random.default_rng(0).normal(size=(50, 4))
        logits[5:, 2] = -np.inf  # at most 5 of 50 samples can be class 2, but its share is a quarter
        with pytest.raises(EnergyAlignError, match=r"did not converge.*If many logits are -inf, some class cannot"):
            fit(logits)

    def test_samples_that_split_into_two_worlds_of_unequal_size(self) -> None:
        logits = np.zeros((40, 4))
        logits[:30, 2:] = -np.inf
        logits[30:, :2] = -np.inf  # ten samples for half of the classes
        with pytest.raises(EnergyAlignError, match="did not converge"):
            fit(logits)

    def test_a_sample_that_can_be_no_class(self) -> None:
        logits = np.zeros((3, 2))
        logits[1] = -np.inf
        with pytest.raises(EnergyAlignError, match="a sample has -inf for every class"):
            fit(logits)


class TestPartlyKnownClasses:
    def test_masked_classes_are_out_of_play(self) -> None:
        logits = np.random.default_rng(0).normal(size=(60, 5)) * 3
        logits[:, [1, 4]] = -np.inf
        result = fit(logits)
        alone = fit(logits[:, [0, 2, 3]])
        np.testing.assert_allclose(result.shifts, [*alone.shifts[:1], 0, *alone.shifts[1:], 0], atol=1e-9)
        np.testing.assert_allclose(result.standard_errors[[0, 2, 3]], alone.standard_errors, rtol=1e-8)
        assert result.standard_errors[[1, 4]].tolist() == [0, 0]

    def test_partly_masked_classes(self) -> None:
        logits = np.random.default_rng(1).normal(size=(60, 3)) * 2
        logits[:20, 2] = -np.inf
        np.testing.assert_allclose(softmax(logits + fit(logits).shifts, axis=1).mean(0), 1 / 3, atol=1e-10)

    def test_a_class_without_labels_is_refused_alone_and_served_in_a_cluster(self) -> None:
        logits, labels = np.random.default_rng(2).normal(size=(40, 3)), np.arange(40) % 2
        with pytest.raises(EnergyAlignError, match="no evidence for class 2"):
            fit(logits, labels)
        shifts = fit(logits, labels, Clusters((0, 1, 1))).shifts
        assert shifts[1] == shifts[2]
        # The classes with samples share the mean posterior equally; class 2 adds to the posterior of its cluster.
        mass = softmax(logits + shifts, axis=1).mean(0)
        assert mass[0] == pytest.approx(0.5, abs=1e-10)


COUNTS = [500.0, 100, 20, 5]


def replicates(simulate: Callable[..., Any], separation: float, labelled: str, n: int = 300) -> tuple[Any, Any, Any]:
    """Return the mean shift, its spread, and its predicted error over independent draws of evidence."""
    rng = np.random.default_rng(0)
    shifts, errors = [], []
    for seed in range(n):
        per_class = [60] * 4 if labelled == "balanced" else rng.multinomial(240, [0.25] * 4)
        logits, labels = simulate(COUNTS, per_class, seed=seed, separation=separation)
        result = fit(logits, None if labelled == "no" else labels, Clusters.per_class(4, COUNTS))
        shifts.append(result.shifts[:3])
        errors.append(result.standard_errors[:3])
    return np.mean(shifts, axis=0), np.std(shifts, axis=0), np.mean(errors, axis=0)


class TestStandardErrorsAgainstSimulation:
    @pytest.mark.parametrize("labelled", ["balanced", "random"])
    def test_with_labels(self, simulate: Callable[..., Any], labelled: str) -> None:
        mean, spread, predicted = replicates(simulate, 3.0, labelled)
        np.testing.assert_allclose(mean, -np.log(np.array(COUNTS[:3]) / COUNTS[3]), atol=0.15)  # the true correction
        np.testing.assert_allclose(predicted, spread, rtol=0.2)

    def test_without_labels(self, simulate: Callable[..., Any]) -> None:
        _, spread, predicted = replicates(simulate, 1.5, "no")
        np.testing.assert_allclose(predicted, spread, rtol=0.2)

    @pytest.mark.parametrize("labelled", ["balanced", "random"])
    def test_with_labels_of_overlapping_classes(self, simulate: Callable[..., Any], labelled: str) -> None:
        # With random numbers of samples per class, the errors would be twice as large.
        _, spread, predicted = replicates(simulate, 1.0, labelled)
        np.testing.assert_allclose(predicted, spread, rtol=0.2)

    def test_one_sample_of_each_class_does_not_show_its_own_spread(self, simulate: Callable[..., Any]) -> None:
        logits, labels = simulate(COUNTS, 1, seed=0, separation=1.0)
        errors = fit(logits, labels).standard_errors
        assert np.all(errors[1:] > 0)
        # The same samples twice are a class of two equal samples: no spread is measured, although there is some.
        assert fit(np.tile(logits, (2, 1)), np.tile(labels, 2)).standard_errors.max() == pytest.approx(0, abs=1e-6)

    def test_the_matrix_and_its_diagonal_agree_where_classes_hardly_touch(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logits, labels = simulate(np.ones(60), 20, seed=0, separation=4.0)
        joint = fit(logits, labels)
        monkeypatch.setattr("energyalign.core.estimators.marginal.standard_errors._MAX_JOINT", 10)
        separate = fit(logits, labels)
        np.testing.assert_allclose(separate.shifts, joint.shifts, atol=1e-7)
        np.testing.assert_allclose(separate.standard_errors[1:], joint.standard_errors[1:], rtol=0.15)

    def test_without_labels_the_covariance_says_what_the_samples_do(
        self, simulate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logits, _ = simulate(np.ones(8), 40, seed=0)
        repeats = np.arange(len(logits)) % 3 + 1.0
        known = fit(logits, repeats=repeats)
        monkeypatch.setattr("energyalign.core.estimators.marginal.standard_errors._LITTLE_CANCELLATION", 0.0)
        by_sample = fit(logits, repeats=repeats)
        assert by_sample.standard_errors.max() > 0
        np.testing.assert_allclose(known.standard_errors, by_sample.standard_errors, rtol=1e-7)

    def test_groups_of_classes_that_never_meet_have_no_known_shift_between_them(self) -> None:
        rng = np.random.default_rng(0)
        labels = np.arange(80) % 4
        logits = np.full((80, 4), -60.0)
        for sample, label in enumerate(labels):
            group = 2 * (label // 2)
            logits[sample, group : group + 2] = rng.normal(size=2)
        errors = fit(logits, labels).standard_errors
        assert errors[0] == 0
        assert 0 < errors[1] < 1
        assert errors[2:].tolist() == [np.inf, np.inf]

    @pytest.mark.parametrize("labelled", [False, True])
    @pytest.mark.parametrize("sure", [16.0, 20.0, 24.0, 28.0])
    def test_classes_that_hardly_meet_leave_the_errors_of_others_alone(self, sure: float, labelled: bool) -> None:
        kinds = np.arange(40) % 4
        logits = sure * np.eye(4)[kinds]
        logits[kinds < 2, :2] = sure + np.random.default_rng(0).normal(size=(20, 2))
        errors = fit(logits, kinds if labelled else None).standard_errors
        # Samples have class 0 or 1: only their posteriors matter for the shift between these classes.
        two = fit(logits[kinds < 2, :2], kinds[kinds < 2] if labelled else None).standard_errors[1]
        assert errors[1] == pytest.approx(two, rel=0.03)
        # Without labels, the number of samples of class 0 or 1 is random.
        # With labels: 0.1115 from the closed form at sure = 16, where the inverse still has all its digits.
        assert errors[2] == pytest.approx(0.1115, abs=1e-3) if labelled else errors[2] > 1e4

    @pytest.mark.parametrize("sure", [36.0, 200.0, 1000.0])
    def test_a_model_that_is_sure_of_everything_shows_no_bias(self, sure: float) -> None:
        errors = fit(sure * np.eye(3)[np.arange(30) % 3], np.arange(30) % 3).standard_errors
        assert errors.tolist() == [0, np.inf, np.inf]
