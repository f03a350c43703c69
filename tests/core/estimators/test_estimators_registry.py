"""Every estimator by name, through one interface."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import ESTIMATORS, make_estimator
from energyalign.core.estimators.prior import Prior
from energyalign.core.evidence import Evidence


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_goes_by_its_own_name_and_gives_an_energy_per_cluster(name: str) -> None:
    estimator = make_estimator(name)
    assert estimator.name == name
    evidence = Evidence.from_arrays(np.random.default_rng(0).normal(size=(20, 4)), counts=[4, 3, 2, 1])
    energies = estimator.energies(evidence, Clusters((0, 1, 1, 2)))
    for values in (energies.values, energies.standard_errors, energies.shift_standard_errors):
        assert np.all(np.isfinite(values))
        assert values.shape == (3,)
    assert energies.shift_standard_errors[0] == 0  # the anchor against itself


def test_tau_reaches_prior() -> None:
    assert make_estimator("prior", tau=0.5) == Prior(0.5)


def test_an_unknown_name_lists_the_known_ones() -> None:
    known = ", ".join([*ESTIMATORS, "auto"])
    with pytest.raises(EnergyAlignError, match=f"unknown estimator 'lda': choose {known}"):
        make_estimator("lda")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_wrong_tau_is_refused_by_all(name: str) -> None:
    with pytest.raises(EnergyAlignError, match="tau must be a finite number"):
        make_estimator(name, tau=float("nan"))
