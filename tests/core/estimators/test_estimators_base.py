"""Classes and clusters without evidence."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.estimators import make_estimator
from energyalign.core.estimators.base import cluster_means
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import name_of

LOGITS = np.random.default_rng(0).normal(size=(12, 4))


def evidence(labels: list[int] | None = None, masked: tuple[int, ...] = ()) -> Evidence:
    logits = LOGITS.copy()
    logits[:, list(masked)] = -np.inf
    return Evidence.from_arrays(logits, labels)


def test_means_are_over_usable_classes_only() -> None:
    # class 3 has no labels, class 1 is masked
    means = cluster_means(
        np.array([1.0, 99, 5, 99]), evidence([0, 2] * 6, masked=(1,)), Clusters((0, 0, 1, 1), anchor=0)
    )
    assert means.tolist() == [1.0, 5.0]


def test_a_cluster_that_is_masked_altogether_follows_the_anchor() -> None:
    means = cluster_means(np.array([1.0, 3, 99, 99]), evidence(masked=(2, 3)), Clusters((0, 0, 1, 1), anchor=0))
    assert means.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["lse", "marginal"])
def test_classes_without_a_shift_of_their_own_are_all_named(name: str) -> None:
    with pytest.raises(EnergyAlignError, match="no evidence for classes 1, 3: "):
        make_estimator(name).energies(evidence([0, 2] * 6), Clusters.per_class(4))


@pytest.mark.parametrize("name", ["lse", "marginal"])
def test_a_masked_anchor_is_refused(name: str) -> None:
    with pytest.raises(EnergyAlignError, match="every class of the anchor cluster is masked"):
        make_estimator(name).energies(evidence(masked=(0,)), Clusters.per_class(4))


@pytest.mark.parametrize("name", ["lse", "marginal", "shrunk"])
def test_masked_classes_do_not_need_labels(name: str) -> None:
    energies = make_estimator(name).energies(evidence([0, 2] * 6, masked=(1, 3)), Clusters.per_class(4))
    assert energies.values[1] == energies.values[3] == energies.values[0]


def test_scaled_shifts_keep_what_they_were_multiplied_by() -> None:
    estimate = make_estimator("lse").estimate(evidence([0, 1, 2, 3] * 3), Clusters.per_class(4))
    assert estimate.strength == 1
    half = estimate.scaled(0.5)
    assert half.strength == 0.5
    np.testing.assert_array_equal(half.shifts, 0.5 * estimate.shifts)
    np.testing.assert_array_equal(half.standard_errors, 0.5 * estimate.standard_errors)
    assert (half.estimator, half.clusters) == (estimate.estimator, estimate.clusters)


@pytest.mark.parametrize("name", ["lse", "marginal", "shrunk"])
def test_what_measures_is_shared_in_several_ways_only_where_counts_differ(name: str) -> None:
    estimator = make_estimator(name)
    assert [name_of(s) for s in estimator.sharings(evidence())] == ["per-class"]
    equal = Evidence.from_arrays(LOGITS, counts=[5, 5, 5, 5])
    assert [name_of(s) for s in estimator.sharings(equal)] == ["per-class"]
    differing = [name_of(s) for s in estimator.sharings(Evidence.from_arrays(LOGITS, counts=[9, 7, 4, 1]))]
    # The variance of u decides how much the classes of `shrunk` share.
    assert differing == (["per-class"] if name == "shrunk" else ["monotone", "per-class", "jenks-2", "jenks-3"])
