"""The solver of `marginal`: the convex problem, its goals, and starts far from the solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from energyalign.core._engine.thinning import thin
from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators.marginal import balancing
from energyalign.core.estimators.marginal.balancing import balance, hold_constant
from energyalign.core.evidence import Evidence
from energyalign.core.mean_posterior import MeanPosterior


def solve(logits: np.ndarray, goal: np.ndarray | None = None, tolerance: float = 1e-10) -> balancing.Balance:
    n_classes = logits.shape[1]
    goal = np.full(n_classes, 1 / n_classes) if goal is None else goal
    return balance(MeanPosterior(Evidence.from_arrays(logits), Clusters.per_class(n_classes)), goal, tolerance)


def test_two_samples_by_hand() -> None:
    # Posteriors of class 0: 3x/(3x+1) and x/(x+1) with x = e^(b0-b1). Their mean is 1/2 for x = 1/√3.
    biases = solve(np.log([[3.0, 1.0], [1.0, 1.0]])).biases
    assert biases[0] - biases[1] == pytest.approx(-0.5493061443340549, abs=1e-9)


def test_one_sample_is_made_flat() -> None:
    logits = np.array([[5.0, -3.0, 0.5]])
    np.testing.assert_allclose(solve(logits).biases, -(logits[0] - logits.mean()), atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.1, 30))
def test_any_goal_is_reached_at_the_minimum(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(30, 4)) * scale
    goal = rng.dirichlet(np.full(4, 0.7)) * 0.99 + 0.0025
    solution = solve(logits, goal)
    np.testing.assert_allclose(softmax(logits + solution.biases, axis=1).mean(0), goal, atol=2e-10)

    def objective(free: np.ndarray) -> float:
        return float(logsumexp(logits + np.array([0, *free]), axis=1).mean() - goal[1:] @ free)

    found = minimize(objective, (solution.biases - solution.biases[0])[1:], method="BFGS")
    assert solution.objective <= found.fun + 1e-9


def test_clusters_of_goal_0_keep_bias_0() -> None:
    logits = np.random.default_rng(0).normal(size=(20, 3))
    logits[:, 1] = -np.inf
    solution = solve(logits, np.array([0.5, 0.0, 0.5]))
    assert solution.biases[1] == 0
    assert solution.moments.mass == pytest.approx([0.5, 0, 0.5], abs=1e-10)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_with_and_without_the_matrix(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.random.default_rng(1).normal(size=(200, 12)) * scale
    dense = solve(logits)
    monkeypatch.setattr(balancing, "MAX_DENSE", 5)
    free = solve(logits)
    assert dense.moments.curvature is not None
    assert free.moments.curvature is None
    mass = softmax(logits + free.biases, axis=1).mean(0)
    np.testing.assert_allclose(mass, 1 / 12, atol=max(1e-10, 1e-12 * np.ptp(logits)))
    if scale == 1.0:  # otherwise the problem is nearly flat, and the biases are known only roughly
        np.testing.assert_allclose(free.biases, dense.biases, atol=1e-7)


@pytest.mark.parametrize("scale", [2.0, 120.0, 400.0])
def test_many_clusters_whose_curvature_steps_do_not_show(scale: float) -> None:
    rng = np.random.default_rng(0)
    logits = scale * rng.normal(size=(900, 150))
    solution = solve(logits)
    mass = softmax(logits + solution.biases, axis=1).mean(0)
    np.testing.assert_allclose(mass, 1 / 150, atol=max(1e-10, 1e-12 * np.ptp(logits)))


def test_much_evidence_is_approached_with_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.random.default_rng(1).normal(size=(400, 12))
    whole = solve(logits)
    monkeypatch.setattr("energyalign.core.mean_posterior.MANY_PASSES", 1)
    monkeypatch.setattr(balancing, "_ROUGH_NUMBERS", 600)
    np.testing.assert_allclose(solve(logits).biases, whole.biases, atol=1e-7)
    # A class that is masked in every sample of the part.
    logits[:, 3] = np.where(np.arange(400) == 399, 2.0, -np.inf)
    some = thin(Evidence.from_arrays(logits), 50).keep
    assert some is not None
    assert not some[399]
    goal = np.where(np.arange(12) == 3, 1e-4, (1 - 1e-4) / 11)
    np.testing.assert_allclose(solve(logits, goal).moments.mass, goal, atol=1e-9)


@pytest.mark.parametrize("start", [0.0, 5.0, 60.0, 1e4])
def test_the_majorised_step_never_raises_the_objective(start: float) -> None:
    rng = np.random.default_rng(2)
    evidence = Evidence.from_arrays(rng.normal(size=(30, 4)) * 5)
    problem = balancing._Problem(MeanPosterior(evidence, Clusters.per_class(4)), np.full(4, 0.25))
    point = problem._evaluate(start * rng.normal(size=4))
    for _ in range(20):
        following = problem._evaluate(point.biases + problem._majorised_step(point))
        assert following.objective <= point.objective + 1e-12 * max(1.0, abs(point.objective))
        point = following


@pytest.mark.parametrize("start", [50.0, 1e3, 1e5])
def test_a_start_far_away_still_arrives(start: float) -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(40, 5)) * 2
    problem = balancing._Problem(MeanPosterior(Evidence.from_arrays(logits), Clusters.per_class(5)), np.full(5, 0.2))
    solution = problem.minimise(start * rng.normal(size=5), 1e-10)
    np.testing.assert_allclose(softmax(logits + solution.biases, axis=1).mean(0), 0.2, atol=2e-10)


@pytest.mark.parametrize("duplicates", [2, 1000])
def test_a_sample_with_an_outlying_class(duplicates: int) -> None:
    """One sample allows a single class only: its bias must move far while the others stay."""
    logits = np.vstack([np.tile([0.0, 0.0, -80.0], (duplicates, 1)), [[0.0, 0.0, 80.0]]])
    np.testing.assert_allclose(softmax(logits + solve(logits).biases, axis=1).mean(0), 1 / 3, atol=2e-10)


def test_what_has_no_solution_ends_with_the_distance_left() -> None:
    logits = np.zeros((10, 2))
    logits[1:, 1] = -np.inf  # class 1 can have at most a tenth
    with pytest.raises(EnergyAlignError, match=r"did not converge in 500 steps: .* still 4\.0e-01 away from its goal"):
        solve(logits)


def test_holding_the_constant_makes_the_curvature_regular() -> None:
    curvature = np.diag([0.2, 0.3, 0.5]) - np.outer([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])
    held = hold_constant(curvature)
    assert np.linalg.cond(held) < 10
    rhs = np.array([0.1, -0.3, 0.2])  # sums to 0, as a gap does
    step = np.linalg.solve(held, rhs)
    np.testing.assert_allclose(curvature @ step, rhs, atol=1e-15)
    assert step.sum() == pytest.approx(0, abs=1e-14)
