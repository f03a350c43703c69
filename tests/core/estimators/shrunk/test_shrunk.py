"""Empirical Bayes: follows the counts without data and the labels with much data, with correct standard errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

from energyalign.core._engine.parts import Rows, Stretch
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import Estimate, make_estimator
from energyalign.core.estimators.shrunk import Shrunk, estimator
from energyalign.core.estimators.shrunk import posterior as module
from energyalign.core.estimators.shrunk.estimator import fit_posterior
from energyalign.core.estimators.shrunk.posterior import Posterior
from energyalign.core.evidence import Evidence
from energyalign.core.free_energy import FreeEnergy
from energyalign.core.sharing import share_per_class

Simulate = Callable[..., tuple[np.ndarray, np.ndarray]]

COUNTS = np.array([1000.0, 300, 100, 30, 10])
BY_COUNTS = np.log(COUNTS[-1] / COUNTS)  # what `prior` says


def held_out(logits: Any, labels: Any = None, **options: Any) -> Evidence:
    return Evidence.from_arrays(logits, labels, **{"kind": "held-out", **options})


def posterior(evidence: Evidence) -> Posterior:
    return fit_posterior(evidence, share_per_class(evidence))


def fit(logits: Any, labels: Any = None, clusters: Clusters | None = None, **options: Any) -> Estimate:
    evidence = held_out(logits, labels, **options)
    return Shrunk().estimate(evidence, clusters or share_per_class(evidence))


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


class TestLimits:
    def test_labels_of_one_class_compare_nothing_and_leave_the_counts(self) -> None:
        logits = np.random.default_rng(0).normal(size=(30, 5)) * 3
        evidence = held_out(logits, np.full(30, 1), counts=COUNTS)
        expected = make_estimator("prior").estimate(evidence, Clusters.per_class(5, COUNTS)).shifts
        result = Shrunk().estimate(evidence, Clusters.per_class(5, COUNTS))
        np.testing.assert_allclose(result.shifts, expected, atol=1e-12)
        np.testing.assert_allclose(result.shifts, BY_COUNTS, atol=1e-12)
        found = posterior(evidence)
        assert (found.temperature, found.slope) == pytest.approx((1, 1))
        assert found.slope_error == pytest.approx(1)  # the prior's own

    def test_a_class_without_labels_takes_what_its_count_says(self, simulate: Simulate) -> None:
        logits, labels = simulate(COUNTS, [80, 80, 0, 80, 80], seed=0)
        evidence = held_out(logits, labels, counts=COUNTS)
        found = posterior(evidence)
        log_prior = centred(np.log(COUNTS))
        assert found.shifts[2] == pytest.approx(-found.slope * log_prior[2] / found.temperature, abs=1e-6)
        assert found.shifts[1] != pytest.approx(-found.slope * log_prior[1] / found.temperature, abs=1e-3)
        # Without data on its deviation, the error contains the whole variance of u.
        assert found.covariance[2, 2] >= found.variance / found.temperature**2
        assert found.covariance[2, 2] > 2 * found.covariance[1, 1]

    def test_without_counts_and_labels_of_a_class_it_has_the_mean_shift(self, simulate: Simulate) -> None:
        logits, labels = simulate(COUNTS, [80, 80, 0, 80, 80], seed=0)
        found = posterior(held_out(logits, labels))
        assert found.shifts[2] == 0
        assert np.ptp(found.shifts) > 1

    @pytest.mark.parametrize("deviating", [False, True])
    @pytest.mark.parametrize("counts", [COUNTS, None])
    def test_with_much_evidence_it_is_marginal(self, simulate: Simulate, deviating: bool, counts: Any) -> None:
        logits, labels = simulate(COUNTS, 4000, seed=1, separation=2.0)
        logits = logits + deviating * np.array([0, 1.5, -1.5, 1.5, 0])
        evidence = held_out(logits, labels, counts=counts)
        own, other = (
            make_estimator(name).estimate(evidence, Clusters.per_class(5, COUNTS)) for name in ("shrunk", "marginal")
        )
        np.testing.assert_allclose(own.shifts, other.shifts, atol=0.06)
        np.testing.assert_allclose(own.shifts, BY_COUNTS - deviating * np.array([0, 1.5, -1.5, 1.5, 0]), atol=0.15)
        assert posterior(evidence).temperature == pytest.approx(1, abs=0.05)

    def test_two_classes_in_closed_form(self) -> None:
        # Flat logits and equal numbers of labels: the maximum of the likelihood is b = 0 whatever the temperature.
        # Equal counts leave only u to estimate; one step of expectation maximisation gives sigma.
        found = posterior(held_out(np.zeros((40, 2)), np.arange(40) % 2))
        np.testing.assert_allclose(found.shifts, 0, atol=1e-12)
        # H = 40 / 4 [[1, -1], [-1, 1]]; tr(H diag(1 / m)) = 1, so the likelihood counts 2 / (2 - 1) times.
        variance = found.variance
        stiff = 1 / (2 * 2 * 10 + 1 / variance)  # along (1, -1); along (1, 1) the prior alone decides
        np.testing.assert_allclose(np.trace(found.covariance), stiff + variance, rtol=1e-6)
        assert variance == pytest.approx((stiff + variance + 2 * 0.25) / (2 + 2), rel=5e-3)

    @pytest.mark.parametrize("seed", range(5))
    def test_one_sample_per_class_is_safe(self, simulate: Simulate, seed: int) -> None:
        counts = np.geomspace(1000, 10, 10)
        logits, labels = simulate(counts, 1, seed=seed, separation=2.5)
        fresh, truth = simulate(counts, 500, seed=100 + seed, separation=2.5)
        shifts = fit(logits, labels, counts=counts).shifts

        def accuracy(values: Any) -> float:
            return float(np.mean(np.argmax(fresh + values, axis=1) == truth))

        assert accuracy(shifts) > accuracy(0) + 0.05
        assert accuracy(shifts) > accuracy(-np.log(counts)) - 0.04  # the true correction


def floored(logits: np.ndarray) -> np.ndarray:
    n_samples, n_classes = logits.shape
    return np.maximum(logits - logits.max(axis=1, keepdims=True), -np.log(n_samples * n_classes))


class Independent:
    """The same model implemented independently, with parameters (log s, tau, u per cluster)."""

    def __init__(self, logits: np.ndarray, labels: np.ndarray, counts: np.ndarray, cluster_of: Any) -> None:
        self.logits, self.labels, self.cluster_of = torch.tensor(floored(logits)), labels, np.asarray(cluster_of)
        self.sizes = np.bincount(labels, minlength=logits.shape[1]).astype(float)
        n_clusters = self.cluster_of.max() + 1
        means = np.array([np.log(counts)[self.cluster_of == k].mean() for k in range(n_clusters)])
        self.log_prior = torch.tensor(centred(means))

    def likelihood(self, log_s: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
        scores = torch.exp(log_s) * self.logits + biases[self.cluster_of] + torch.tensor(np.log(self.sizes))
        return torch.log_softmax(scores, dim=1)[np.arange(len(self.labels)), self.labels].sum()

    def scale(self, found: Posterior) -> float:
        """C / (C - tr(H diag(1 / m))), with m the mean posterior times the number of samples."""
        log_s, biases = torch.tensor(np.log(found.temperature)), torch.tensor(found.shifts * found.temperature)
        hessian = torch.autograd.functional.hessian(lambda b: -self.likelihood(log_s, b), biases).numpy()
        scores = found.temperature * self.logits.numpy() + biases.numpy()[self.cluster_of] + np.log(self.sizes)
        masses = np.bincount(self.cluster_of, weights=softmax(scores, axis=1).sum(axis=0))
        return len(biases) / (len(biases) - float(np.sum(np.diag(hessian) / masses)))

    def loss(self, free: torch.Tensor, variance: float, scale: float) -> torch.Tensor:
        log_s, tau, u = free[0], free[1], free[2:]
        penalty = log_s**2 + (tau - 1) ** 2 + (u**2).sum() / variance
        return -scale * self.likelihood(log_s, u - tau * self.log_prior) + penalty / 2

    def solve(self, variance: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the maximum of the posterior, and the covariance there."""

        def value_and_slope(free: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.tensor(free, requires_grad=True)
            loss = self.loss(point, variance, scale)
            loss.backward()
            return loss.item(), point.grad.numpy()

        start = np.zeros(2 + len(self.log_prior))
        best = minimize(value_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}).x
        curvature = torch.autograd.functional.hessian(lambda p: self.loss(p, variance, scale), torch.tensor(best))
        return best, np.linalg.inv(curvature.numpy())


@pytest.mark.parametrize("cluster_of", [(0, 1, 2, 3, 4), (0, 1, 1, 2, 0)])
class TestAgainstAnIndependentImplementation:
    @pytest.fixture
    def problem(
        self, simulate: Simulate, cluster_of: Any, monkeypatch: pytest.MonkeyPatch
    ) -> tuple[Independent, Posterior]:
        monkeypatch.setattr(estimator, "_FLOOR_TOLERANCE", np.inf)  # the floor stays where `floored` has it
        # Overconfident, with a bias that the counts do not explain, and random numbers of labels.
        logits, labels = simulate(COUNTS, [40, 30, 25, 20, 12], seed=3)
        logits = 2.0 * logits + np.array([0, 1.0, -1.0, 0.5, 0])
        evidence = held_out(logits, labels, counts=COUNTS)
        return Independent(logits, labels, COUNTS, cluster_of), fit_posterior(evidence, Clusters(cluster_of))

    def test_the_maximum_of_the_posterior(self, problem: tuple[Independent, Posterior]) -> None:
        model, found = problem
        best, _ = model.solve(found.variance, model.scale(found))
        temperature = np.exp(best[0])
        assert found.temperature == pytest.approx(temperature, rel=2e-3)
        assert found.temperature < 0.9
        assert found.slope == pytest.approx(best[1], abs=2e-3)
        biases = best[2:] - best[1] * model.log_prior.numpy()
        np.testing.assert_allclose(found.shifts, biases / temperature, atol=2e-3)

    def test_its_errors(self, problem: tuple[Independent, Posterior]) -> None:
        model, found = problem
        best, covariance = model.solve(found.variance, model.scale(found))
        # Shifts are (u - tau log pi) / s: the errors follow by the delta method.
        temperature, log_prior = np.exp(best[0]), model.log_prior.numpy()
        shifts = (best[2:] - best[1] * log_prior) / temperature
        jacobian = np.column_stack([-shifts, -log_prior / temperature, np.eye(len(shifts)) / temperature])
        np.testing.assert_allclose(found.covariance, jacobian @ covariance @ jacobian.T, rtol=0.01, atol=2e-4)
        assert found.slope_error == pytest.approx(np.sqrt(covariance[1, 1]), rel=0.01)

    def test_the_variance_is_a_fixed_point_of_expectation_maximisation(
        self, problem: tuple[Independent, Posterior]
    ) -> None:
        model, found = problem
        best, covariance = model.solve(found.variance, model.scale(found))
        squares = np.sum(best[2:] ** 2) + np.trace(covariance[2:, 2:])
        # The prior has the weight of two classes with a deviation of 0.5.
        assert (squares + 2 * 0.5**2) / (len(best) - 2 + 2) == pytest.approx(found.variance, rel=5e-3)


class TestInvariance:
    @settings(max_examples=15)
    @given(seed=st.integers(0, 2**32 - 1), size=st.floats(0, 1e3))
    def test_a_constant_added_to_one_sample_changes_nothing(self, seed: int, size: float) -> None:
        rng = np.random.default_rng(seed)
        logits, labels = rng.normal(size=(25, 4)) * 3, np.arange(25) % 4
        expected = fit(logits, labels).shifts
        np.testing.assert_allclose(fit(logits + size * rng.normal(size=(25, 1)), labels).shifts, expected, atol=1e-6)
        np.testing.assert_allclose(fit(log_softmax(logits, axis=1), labels).shifts, expected, atol=1e-6)

    @pytest.mark.parametrize("labelled", [False, True])
    def test_repeats_are_duplicated_rows(self, simulate: Simulate, labelled: bool) -> None:
        logits, labels = simulate(COUNTS, 12, seed=4)
        repeats = 1 + np.arange(60) % 3
        many = np.repeat(np.arange(60), repeats)
        one = fit(logits, labels if labelled else None, repeats=repeats, counts=COUNTS)
        two = fit(logits[many], labels[many] if labelled else None, counts=COUNTS)
        np.testing.assert_allclose(one.shifts, two.shifts, atol=1e-9)
        np.testing.assert_allclose(one.standard_errors, two.standard_errors, atol=1e-9)

    def test_samples_that_are_not_kept_are_not_there(self, simulate: Simulate) -> None:
        logits, labels = simulate(COUNTS, 20, seed=5)
        keep = np.arange(100) % 3 > 0
        part = held_out(logits, labels, counts=COUNTS).subset(keep)
        result = Shrunk().estimate(part, share_per_class(part))
        np.testing.assert_allclose(result.shifts, fit(logits[keep], labels[keep], counts=COUNTS).shifts, atol=1e-9)

    @pytest.mark.parametrize("labelled", [False, True])
    def test_masked_classes_are_out_of_play(self, simulate: Simulate, labelled: bool) -> None:
        logits, labels = simulate(COUNTS, [30, 0, 30, 30, 0], seed=6)
        logits[:, [1, 4]] = -np.inf
        known, in_play = labels if labelled else None, [0, 2, 3]
        result = fit(logits, known, counts=COUNTS)
        alone = fit(logits[:, in_play], np.searchsorted(in_play, labels) if labelled else None, counts=COUNTS[in_play])
        np.testing.assert_allclose(result.shifts[in_play], alone.shifts, atol=1e-9)
        np.testing.assert_allclose(result.standard_errors[in_play], alone.standard_errors, atol=1e-9)
        assert result.shifts[[1, 4]].tolist() == result.standard_errors[[1, 4]].tolist() == [0, 0]

    def test_masks_of_single_samples(self, simulate: Simulate) -> None:
        logits, labels = simulate(COUNTS, 40, seed=7)
        logits[(labels < 2)[:, None] & (np.arange(5) >= 3)] = -np.inf
        result = fit(logits, labels, counts=COUNTS)
        assert np.all(np.isfinite(result.shifts))
        assert np.all(np.isfinite(result.standard_errors))

    def test_single_precision_and_torch_give_the_same(self, guarded: Callable[[np.ndarray], Any]) -> None:
        logits = (np.random.default_rng(3).normal(size=(300, 5)) * 4).astype(np.float32)
        for labels in (np.arange(300) % 5, None):
            for clusters in (None, Clusters((0, 1, 1, 2, 0))):
                expected = fit(logits.astype(np.float64), labels, clusters)
                for block in (logits, torch.tensor(logits), torch.tensor(logits).double(), guarded(logits)):
                    result = fit(block, labels, clusters)
                    np.testing.assert_allclose(result.shifts, expected.shifts, atol=1e-8)
                    np.testing.assert_allclose(result.standard_errors, expected.standard_errors, rtol=1e-6)


class Elsewhere:
    """An engine that pickles its work, as for another process, and starts with the last part."""

    def map(self, work: Callable[[Stretch], Any], stretches: Sequence[Stretch]) -> Iterator[Any]:
        sent = [pickle.dumps((work, stretch)) for stretch in stretches]
        results = {}
        for i in reversed(range(len(sent))):
            theirs, stretch = pickle.loads(sent[i])
            results[i] = pickle.dumps(theirs(stretch))
        return (pickle.loads(results[i]) for i in range(len(sent)))


class TestParts:
    @pytest.mark.parametrize("labelled", [False, True])
    def test_give_the_same_as_the_whole(self, simulate: Simulate, labelled: bool) -> None:
        logits, labels = simulate(COUNTS, 50, seed=8)
        known = labels if labelled else None
        options: dict[str, Any] = {"counts": COUNTS, "kind": "held-out"}
        whole = fit(logits, known, counts=COUNTS)
        cuts = [logits[:7], logits[7:8], logits[8:150], logits[150:]]
        streamed = Evidence.from_blocks(lambda: iter(cuts), 250, 5, known, **options)
        parts = [Rows(cut) for cut in cuts]
        in_turn = Evidence.from_parts(parts, 5, known, **options)
        elsewhere = Evidence.from_parts(parts, 5, known, engine=Elsewhere(), **options)
        results = [Shrunk().estimate(e, share_per_class(e)) for e in (streamed, in_turn, elsewhere)]
        for result in results:
            np.testing.assert_allclose(result.shifts, whole.shifts, atol=1e-9)
            np.testing.assert_allclose(result.standard_errors, whole.standard_errors, atol=1e-9)
        np.testing.assert_array_equal(results[1].shifts, results[2].shifts)  # to the bit

    def test_large_evidence_is_thinned_and_says_nearly_the_same(
        self, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logits, labels = simulate(COUNTS, [2000, 1000, 500, 200, 10], seed=9)
        whole = fit(logits, labels, counts=COUNTS)
        monkeypatch.setattr(module, "_MAX_NUMBERS", 5 * 1000)
        part = fit(logits, labels, counts=COUNTS)
        assert np.any(part.shifts != whole.shifts)
        np.testing.assert_allclose(part.shifts, whole.shifts, atol=0.25)
        # Each sample also counts for the samples left out: the errors are those of all samples.
        np.testing.assert_allclose(part.standard_errors, whole.standard_errors, rtol=0.15)

    def test_it_is_fitted_once_per_evidence(self, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
        logits, labels = simulate(COUNTS, 20, seed=10)
        evidence = held_out(logits, labels, counts=COUNTS)
        estimate = Shrunk().estimate(evidence, share_per_class(evidence))
        monkeypatch.setattr(Evidence, "accumulate", None)  # no further pass
        assert Shrunk().applies(evidence) is None
        assert Shrunk().doubts(estimate, evidence) == []


class TestManyClasses:
    @pytest.mark.parametrize("labelled", [False, True])
    @pytest.mark.parametrize("kind", ["held-out", "training"])
    def test_the_diagonal_gives_the_same_maximum(
        self, simulate: Simulate, monkeypatch: pytest.MonkeyPatch, kind: Any, labelled: bool
    ) -> None:
        """Both variances of u are fixed to one value, because the diagonal ignores covariances between classes."""
        counts = np.geomspace(500, 5, 30)
        logits, labels = simulate(counts, 12, seed=11, separation=3.0)
        evidence = Evidence.from_arrays(logits, labels if labelled else None, counts=counts, kind=kind)
        monkeypatch.setattr(module.Problem, "_next_variance", lambda *_: 0.25)
        clusters = Clusters.per_class(30, counts)
        dense = Shrunk().estimate(evidence, clusters)
        monkeypatch.setattr(module, "_MAX_DENSE", 10)
        evidence.estimated.clear()
        diagonal = Shrunk().estimate(evidence, clusters)
        assert fit_posterior(evidence, clusters).covariance.shape == (30,)
        np.testing.assert_allclose(diagonal.shifts, dense.shifts, atol=1e-3)

    def test_its_errors_are_near_where_classes_hardly_touch(
        self, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logits, labels = simulate(np.ones(40), 15, seed=12, separation=4.0)
        dense = fit(logits, labels)
        monkeypatch.setattr(module, "_MAX_DENSE", 10)
        diagonal = fit(logits, labels)
        np.testing.assert_allclose(diagonal.standard_errors[1:], dense.standard_errors[1:], rtol=0.25)
        np.testing.assert_allclose(centred(diagonal.shifts), centred(dense.shifts), atol=0.1)

    def test_more_classes_than_a_matrix_is_kept_for(self) -> None:
        n_classes = 1100
        rng = np.random.default_rng(2)
        labels = np.arange(2 * n_classes) % n_classes
        counts = np.geomspace(1000, 10, n_classes)
        logits = 6 * np.eye(n_classes)[labels] + rng.normal(size=(2 * n_classes, n_classes)) + np.log(counts)
        evidence = held_out(logits.astype(np.float32), labels, counts=counts)
        result = Shrunk().estimate(evidence, share_per_class(evidence))
        assert np.all(np.isfinite(result.standard_errors))
        log_counts = centred(np.log(counts))
        assert -(log_counts @ result.shifts) / (log_counts @ log_counts) == pytest.approx(1, abs=0.15)


def standardised(simulate: Simulate, per_class: int, imbalance: float, separation: float) -> tuple[Any, float]:
    """Return the errors of 420 shifts divided by their standard errors, and the share of logits below the floor.

    The shifts are drawn from the model, tau ~ N(1, 0.3²), u ~ N(0, 0.5²); the numbers of labels are fixed.
    """
    rng = np.random.default_rng(0)
    counts = np.geomspace(10 * imbalance, 10, 8)
    scores, below = [], []
    for seed in range(60):
        bias = rng.normal(1, 0.3) * np.log(counts) + rng.normal(0, 0.5, size=8)
        temperature = np.exp(rng.normal(0, 0.2))
        logits, labels = simulate(np.ones(8), per_class, seed=seed, separation=separation)
        logits = (logits + bias) / temperature
        below.append(np.mean(floored(logits) > logits - logits.max(axis=1, keepdims=True)))
        result = fit(logits, labels, counts=counts)
        scores.append((result.shifts - (bias[7] - bias) / temperature)[:7] / result.standard_errors[:7])
    return np.array(scores), float(np.mean(below))


class TestStandardErrors:
    @pytest.mark.parametrize("per_class", [5, 40])
    def test_cover_the_truth(self, simulate: Simulate, per_class: int) -> None:
        scores, below = standardised(simulate, per_class, 5, 1.0)
        assert below < 0.02
        assert 0.88 <= np.mean(np.abs(scores) < 1.96) <= 0.995
        assert abs(np.mean(scores)) < 0.25

    def test_beyond_the_floor_shifts_are_too_small_and_not_too_large(self, simulate: Simulate) -> None:
        """Logits below the floor are raised to it, which reduces the bias; standard errors do not include this."""
        scores, below = standardised(simulate, 20, 50, 2.0)
        assert below > 0.05
        assert np.mean(scores) > 0.3  # the shifts of common classes relative to the rarest are negative

    def test_fall_with_the_evidence(self, simulate: Simulate) -> None:
        errors = []
        for per_class in (20, 200, 2000):
            logits, labels = simulate(COUNTS, per_class, seed=13)
            errors.append(fit(logits, labels, counts=COUNTS).standard_errors[:4])
        assert np.all(np.diff(errors, axis=0) < 0)
        np.testing.assert_allclose(errors[1], np.sqrt(10) * errors[2], rtol=0.25)


class TestTemperature:
    @pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
    def test_is_found_and_shifts_are_those_of_the_logits_as_they_are(self, simulate: Simulate, factor: float) -> None:
        counts = np.array([8.0, 4, 2, 1])  # so that hardly any logit is below the floor
        logits, labels = simulate(counts, 1000, seed=14, separation=0.7)
        evidence = held_out(factor * logits, labels, counts=counts)
        assert posterior(evidence).temperature == pytest.approx(1 / factor, rel=0.1)
        shifts = fit(factor * logits, labels, counts=counts).shifts
        np.testing.assert_allclose(shifts, -factor * np.log(counts), atol=0.15 * factor)

    def test_far_from_1_is_reached_in_steps_uphill(self, simulate: Simulate) -> None:
        """If a step of the temperature is shortened, the biases are shortened with it."""
        logits, labels = simulate(COUNTS, 500, seed=14)
        evidence = held_out(3.0 * logits, labels, counts=COUNTS)
        found = posterior(evidence)
        assert found.temperature < 0.6
        raw, own = (
            log_softmax(s * floored(3.0 * logits) + b, axis=1)[np.arange(2500), labels].sum()
            for s, b in ((1.0, -np.log(COUNTS)), (found.temperature, found.temperature * found.shifts))
        )
        assert own > raw + 1000

    @pytest.mark.parametrize("scale", [3.0, 10.0, 100.0])
    def test_a_model_that_is_far_too_sure_has_the_same_shifts_in_its_own_units(
        self, simulate: Simulate, scale: float
    ) -> None:
        """The floor applies to posteriors, that is, to logits times the temperature."""
        logits, labels = simulate(COUNTS, 500, seed=15)
        expected = fit(logits, labels, counts=COUNTS)
        result = fit(scale * logits, labels, counts=COUNTS)
        np.testing.assert_allclose(result.shifts / scale, expected.shifts, rtol=0.1)

    def test_a_diverged_model_is_fitted(self, simulate: Simulate) -> None:
        logits, labels = simulate(COUNTS, 30, seed=15)
        result = fit(1e5 * logits, labels, counts=COUNTS)
        fresh, truth = simulate(COUNTS, 500, seed=16)
        raw, aligned = (np.mean(np.argmax(1e5 * fresh + b, axis=1) == truth) for b in (0, result.shifts))
        assert aligned >= raw


class TestUnlabelledEvidence:
    def test_the_slope_is_seen_in_the_mean_posterior(self, simulate: Simulate) -> None:
        logits, _ = simulate(COUNTS, 400, seed=16)
        found = posterior(held_out(logits, counts=COUNTS))
        assert found.temperature == 1
        assert found.slope == pytest.approx(1, abs=0.15)
        balanced, _ = simulate(np.ones(5), 400, seed=16)
        assert posterior(held_out(balanced, counts=COUNTS)).slope == pytest.approx(0, abs=0.15)

    def test_only_energies_are_refused(self, simulate: Simulate) -> None:
        logits, _ = simulate(COUNTS, 40, seed=17)
        evidence = Evidence.from_free_energy(FreeEnergy().update(logits), counts=COUNTS)
        assert "needs the logits" in str(Shrunk().applies(evidence))
        with pytest.raises(EnergyAlignError, match="needs the logits"):
            Shrunk().estimate(evidence, Clusters.per_class(5, COUNTS))


def training(logits: Any, labels: Any, counts: Any = COUNTS) -> Evidence:
    return Evidence.from_arrays(logits, labels, counts=counts)


def memorised(seed: int, bias: Any, per_class: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Draw training samples that are nearly always classified correctly, with less confidence than possible."""
    labels = np.repeat(np.arange(5), per_class)
    noise = np.random.default_rng(seed).normal(size=(len(labels), 5))
    return 5 * np.eye(5)[labels] + noise + np.asarray(bias), labels


class TestTrainingEvidence:
    def test_the_temperature_is_not_free(self) -> None:
        logits, labels = memorised(0, np.log(COUNTS))
        assert posterior(held_out(logits, labels, counts=COUNTS)).temperature > 1.2
        found = posterior(training(logits, labels))
        assert found.temperature == 1
        assert not found.transformed

    def test_a_class_has_no_more_samples_than_images(self) -> None:
        """A rare class drawn often with augmentation is worth no more than its images; other classes do not change."""
        logits, labels = memorised(1, np.log(COUNTS), per_class=40)
        # Class 4 has 10 images and 40 draws, class 3 has 30 and 40: each draw counts for less.
        weights = np.array([1, 1, 1, 0.75, 0.25])[labels]
        capped = posterior(training(logits, labels))
        # Not equal to the last digit: the floor of the logits depends on the number of draws.
        weighed = posterior(Evidence.from_arrays(logits, labels, counts=COUNTS, repeats=weights))
        np.testing.assert_allclose(capped.shifts, weighed.shifts, atol=0.08)
        plain = posterior(training(logits, labels, counts=100 * COUNTS))
        assert np.abs(capped.shifts - plain.shifts).max() > 0.01
        assert capped.covariance[4, 4] > plain.covariance[4, 4]

    @pytest.mark.parametrize("reverse", [0.3, 1.0])
    def test_the_slope_is_never_negative(self, reverse: float) -> None:
        logits, labels = memorised(2, -reverse * np.log(COUNTS), per_class=60)
        logits -= 3 * np.eye(5)[labels]
        found = posterior(training(logits, labels))
        assert found.slope < 0
        # Shifts do not grow with the counts, neither through the slope nor through the deviations.
        assert centred(np.log(COUNTS)) @ found.shifts <= 1e-9
        free = posterior(held_out(logits, labels, counts=COUNTS))
        assert free.slope < 0
        assert centred(np.log(COUNTS)) @ free.shifts > 0

    def test_what_is_harder_than_the_training_has_no_say_per_class(self, simulate: Simulate) -> None:
        logits, labels = simulate(COUNTS, 60, seed=18)
        evidence = training(2.0 * logits + np.array([0, 3, -3, 3, 0]), labels)
        found = posterior(evidence)
        assert found.transformed
        np.testing.assert_allclose(found.shifts, -found.slope * centred(np.log(COUNTS)), atol=0.01)
        reason = str(Shrunk().applies(evidence))
        assert "harder for the model than its training data (its logits would have to be scaled down)" in reason
        assert "not trained on these samples, set the evidence to 'held-out'." in reason


class TestRefused:
    def test_a_sample_that_can_be_no_class(self) -> None:
        logits = np.zeros((6, 3))
        logits[2] = -np.inf
        with pytest.raises(EnergyAlignError, match="a sample has -inf for every class"):
            fit(logits, [0, 0, 1, 1, 2, 2])

    def test_what_does_not_converge(self, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MAX_STEPS", 1)
        logits, labels = simulate(COUNTS, 20, seed=19)
        with pytest.raises(EnergyAlignError, match=r"'shrunk' did not converge in 1 steps: .*estimator 'prior'"):
            fit(logits, labels, counts=COUNTS)


def test_the_likelihood_is_that_of_case_control_samples(simulate: Simulate) -> None:
    """Under the fitted shifts and a weak prior, the mean posterior gives every class its number of samples."""
    sizes = [900, 500, 400, 300, 250]
    logits, labels = simulate(COUNTS, sizes, seed=20)
    found = posterior(held_out(logits, labels, counts=COUNTS))
    scores = found.temperature * (logits + found.shifts) + np.log(sizes)
    expected = np.exp(scores - logsumexp(scores, axis=1, keepdims=True)).sum(axis=0)
    np.testing.assert_allclose(expected, sizes, rtol=0.02)


def test_a_large_class_without_training_evidence_causes_no_warning() -> None:
    labels = np.repeat([0, 1], 50)
    logits = np.random.default_rng(0).normal(size=(100, 3)) + 2 * np.eye(3)[labels]
    fitted = posterior(Evidence.from_arrays(logits, labels, counts=[5, 50, 10**9], kind="training"))
    assert np.isfinite(fitted.shifts).all()
