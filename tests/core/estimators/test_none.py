"""The raw model as a row of tables."""

from __future__ import annotations

import numpy as np

from energyalign.core.evidence import Evidence
from energyalign.core.fitting import fit_shifts


def test_nothing_is_shifted_whatever_the_evidence() -> None:
    logits = np.random.default_rng(0).normal(size=(20, 3)) * 10
    shifts = fit_shifts(Evidence.from_arrays(logits, counts=[100, 10, 1]), estimator="none", clusters="per-class")
    assert shifts.values.tolist() == [0, 0, 0]
    assert shifts.standard_errors.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(shifts.apply(logits), logits)


def test_only_the_target_prior_is_added() -> None:
    shifts = fit_shifts(
        Evidence.from_arrays(np.zeros((2, 2))), estimator="none", clusters="per-class", target_prior=[3, 1]
    )
    np.testing.assert_allclose(shifts.predict_proba(np.zeros((1, 2))), [[0.75, 0.25]], rtol=1e-14)
