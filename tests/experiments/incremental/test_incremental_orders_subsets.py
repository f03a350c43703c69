"""Named subsets of classes."""

from __future__ import annotations

import numpy as np
import pytest

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.orders import IMAGENET100_SEED1993, SUBSETS, subset_classes


def test_the_drawn_subset_is_numpys_choice_and_its_permutation() -> None:
    chosen = np.random.RandomState(1993).choice(1000, 100, replace=False)
    permuted = np.random.RandomState(1993).permutation(1000)[:100]
    assert list(IMAGENET100_SEED1993) == chosen.tolist()
    assert list(IMAGENET100_SEED1993) == permuted.tolist()
    assert IMAGENET100_SEED1993[:12] == (54, 7, 894, 512, 126, 337, 988, 11, 284, 493, 133, 783)


def test_the_drawn_subset_is_given_in_increasing_order() -> None:
    classes = subset_classes("seed1993", 1000)
    assert list(classes) == sorted(classes)
    assert len(classes) == len(set(classes)) == 100
    assert set(classes) == set(IMAGENET100_SEED1993)
    assert (classes[0], classes[-1]) == (7, 999)


def test_the_other_names() -> None:
    assert subset_classes("all", 4) == (0, 1, 2, 3)
    assert subset_classes("first100", 1000) == tuple(range(100))
    assert subset_classes("first100", 100) == subset_classes("first:100", 1000) == tuple(range(100))
    assert subset_classes("first:2", 10) == (0, 1)
    assert subset_classes("first:10", 10) == tuple(range(10))


@pytest.mark.parametrize("n_classes", [100, 999, 1001])
def test_the_drawn_subset_is_of_1000_classes_only(n_classes: int) -> None:
    with pytest.raises(EnergyAlignError, match=f"drawn from 1,000 classes, and this data set has {n_classes}"):
        subset_classes("seed1993", n_classes)


@pytest.mark.parametrize(
    ("name", "n_classes", "asked"), [("first:1", 10, 1), ("first:0", 10, 0), ("first:-3", 10, -3), ("first:11", 10, 11)]
)
def test_too_few_and_too_many_classes_are_refused(name: str, n_classes: int, asked: int) -> None:
    with pytest.raises(EnergyAlignError, match=rf"'{name}' asks for {asked} classes .* N between 2 and {n_classes}"):
        subset_classes(name, n_classes)


def test_the_first_hundred_of_fewer_are_refused() -> None:
    with pytest.raises(EnergyAlignError, match="'first100' asks for 100 classes of a data set of 99"):
        subset_classes("first100", 99)


@pytest.mark.parametrize("name", ["", "first", "first:", "first50", "first:2.5", "seed:1993", "All"])
def test_an_unknown_name_is_told_the_choices(name: str) -> None:
    with pytest.raises(EnergyAlignError, match="unknown subset") as error:
        subset_classes(name, 1000)
    assert all(choice in str(error.value) for choice in SUBSETS)


@pytest.mark.parametrize("name", [name.replace("N", "3") for name in SUBSETS])
def test_every_listed_name_can_be_asked_for(name: str) -> None:
    assert len(subset_classes(name, 1000)) >= 2
