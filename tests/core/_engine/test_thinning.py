"""Even subsets of the evidence."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign import Clusters, Evidence
from energyalign.core._engine.thinning import thin, thin_and_repeat
from energyalign.core.estimators.marginal import Marginal


def test_classes_that_come_in_turn_are_all_seen() -> None:
    logits = np.eye(10)[np.arange(1000) % 10]
    kept = thin(Evidence.from_arrays(logits), 100).keep
    assert kept is not None
    assert kept.sum() == 100
    assert set(np.flatnonzero(kept) % 10) == set(range(10))


def test_what_is_left_of_small_classes() -> None:
    labels = np.repeat([0, 1], [100, 5])
    kept = thin(Evidence.from_arrays(np.zeros((105, 2)), labels), 11, min_per_class=4).keep
    assert kept is not None
    assert np.bincount(labels[kept]).tolist() == [10, 5]


def test_a_part_in_place_of_all_weighs_as_much() -> None:
    labels = np.repeat([0, 1], [100, 6])
    evidence = Evidence.from_arrays(np.zeros((106, 2)), labels)
    thin = thin_and_repeat(evidence, 11, min_per_class=3)
    assert thin.label_counts is not None
    assert thin.label_counts.tolist() == [100, 6]
    assert thin.total_weight == evidence.total_weight


def test_standard_errors_of_a_part_are_close_to_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(6000) % 6
    logits = rng.normal(size=(6000, 6)) + 2 * np.eye(6)[labels]
    clusters = Clusters.per_class(6)
    for known in (labels, None):
        monkeypatch.setattr("energyalign.core.estimators.marginal.standard_errors._MAX_PRODUCTS", 600 * 36)
        part = Marginal().energies(Evidence.from_arrays(logits, known), clusters)
        monkeypatch.undo()
        whole = Marginal().energies(Evidence.from_arrays(logits, known), clusters)
        np.testing.assert_array_equal(part.values, whole.values)
        np.testing.assert_allclose(part.shift_standard_errors[1:], whole.shift_standard_errors[1:], rtol=0.15)


def test_a_part_of_a_part_is_not_empty() -> None:
    labels = np.arange(1000) % 10
    for known in (labels, None):
        half = Evidence.from_arrays(np.zeros((1000, 10)), known).subset((np.arange(1000) // 10) % 2 == 1)
        kept = thin(half, 100).keep
        assert kept is not None
        assert half.keep is not None
        assert kept.sum() == 100
        assert np.all(half.keep[kept])
        assert set(labels[kept]) == set(range(10))
