"""Values of the option `clusters`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from energyalign.core.clusters import Clusters
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence
from energyalign.core.sharing import make_sharing, sharings_to_try


def evidence(counts: list[float] | None = None, masked: tuple[int, ...] = (), n_classes: int = 4) -> Evidence:
    logits = np.random.default_rng(0).normal(size=(20, n_classes))
    logits[:, list(masked)] = -np.inf
    return Evidence.from_arrays(logits, counts=counts)


@pytest.mark.parametrize("choice", [2, "2", np.int64(2)])
def test_a_number_means_jenks_clusters(choice: Any) -> None:
    assert make_sharing(choice, evidence([100, 1, 2, 99])) == Clusters((1, 0, 0, 1), 0, "jenks-2")


@pytest.mark.parametrize("choice", [[1, 0, 0, 1], (1, 0, 0, 1), np.array([1, 0, 0, 1])])
def test_the_cluster_of_each_class(choice: Any) -> None:
    assert make_sharing(choice, evidence([1, 20, 20, 1])) == Clusters((1, 0, 0, 1), 1, "given")
    assert make_sharing(choice, evidence()) == Clusters((1, 0, 0, 1), 0, "given")


def test_clusters_are_taken_as_they_are() -> None:
    clusters = Clusters.old_new([0, 1], 4)
    assert make_sharing(clusters, evidence()) is clusters


def test_the_anchor_per_class_is_the_rarest_class_in_play() -> None:
    assert make_sharing("per-class", evidence([9, 1, 5, 7])).anchor == 1
    assert make_sharing("per-class", evidence([9, 1, 5, 7], masked=(1,))).anchor == 2
    assert make_sharing("per-class", evidence(masked=(0,))).anchor == 1


def test_monotone() -> None:
    assert make_sharing("monotone", evidence([9, 1, 5, 7])) == "monotone"


@pytest.mark.parametrize("choice", ["monotone", 2, "3"])
def test_what_orders_the_classes_needs_counts(choice: Any) -> None:
    with pytest.raises(EnergyAlignError, match="needs training counts: give counts"):
        make_sharing(choice, evidence())


@pytest.mark.parametrize("choice", ["perclass", "", "-1", "²", "1.5", None, 2.5, {0: 1}])
def test_unknown_words_name_the_choices(choice: Any) -> None:
    with pytest.raises(EnergyAlignError, match=r"unknown clusters .*choose auto, per-class, monotone, jenks, a number"):
        make_sharing(choice, evidence([9, 1, 5, 7]))


@pytest.mark.parametrize("counts", [None, [9.0, 1, 5, 7]])
def test_clusters_of_another_number_of_classes(counts: list[float] | None) -> None:
    with pytest.raises(EnergyAlignError, match=r"clusters .* got 3"):
        make_sharing([0, 1, 1], evidence(counts))
    with pytest.raises(EnergyAlignError, match="clusters must have one entry per class of the logits, 4, got 3"):
        make_sharing(Clusters((0, 1, 1)), evidence(counts))


def names(tried: list[Any]) -> list[str]:
    return [sharing if isinstance(sharing, str) else sharing.name for sharing in tried]


def test_auto_tries_monotone_first_then_per_class_then_jenks() -> None:
    assert names(sharings_to_try(evidence([9, 1, 5, 7]))) == ["monotone", "per-class", "jenks-2", "jenks-3"]
    assert names(sharings_to_try(evidence([9, 1, 9, 1]))) == ["monotone", "per-class", "jenks-2"]


def test_auto_tries_at_most_ten_clusters() -> None:
    tried = sharings_to_try(evidence(list(range(1, 31)), n_classes=30))
    assert names(tried) == ["monotone", "per-class", *(f"jenks-{m}" for m in range(2, 11))]


@pytest.mark.parametrize("counts", [None, [5.0, 5, 5, 5]])
def test_without_different_counts_there_is_only_per_class(counts: list[float] | None) -> None:
    assert names(sharings_to_try(evidence(counts))) == ["per-class"]
