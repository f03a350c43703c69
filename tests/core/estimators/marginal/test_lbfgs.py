"""L-BFGS: the curvature estimated from the last steps."""

from __future__ import annotations

import numpy as np

from energyalign.core.estimators.marginal.balancing import Lbfgs


def test_without_steps_the_masses_stand_in() -> None:
    mass = np.array([0.5, 0.25, 0.0])
    assert Lbfgs().inverse_times(np.ones(3), mass).tolist() == [2.0, 4.0, 0.0]


def test_it_knows_the_last_step_exactly_and_the_whole_after_enough_of_them() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    curvature = root @ root.T + np.eye(5)
    lbfgs = Lbfgs()
    directions = np.linalg.eigh(curvature)[1].T  # steps that do not disturb one another
    for step in directions:
        lbfgs.add(step, curvature @ step)
        np.testing.assert_allclose(lbfgs.inverse_times(curvature @ step, np.ones(5)), step, atol=1e-12)
    vector = rng.normal(size=5)
    np.testing.assert_allclose(lbfgs.inverse_times(vector, np.ones(5)), np.linalg.solve(curvature, vector))


def test_a_step_whose_change_is_rounding_is_ignored() -> None:
    lbfgs = Lbfgs()
    lbfgs.add(np.array([1.0, 0.0]), np.array([-1e-20, 1.0]))
    assert lbfgs.inverse_times(np.ones(2), np.ones(2)).tolist() == [1.0, 1.0]
