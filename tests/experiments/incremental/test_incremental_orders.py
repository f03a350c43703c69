"""Named class orders: the constants agree with their seeds and with the publications."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.incremental.orders import (
    ICARL_CIFAR100,
    ORDERS,
    SEED1993_CIFAR100,
    class_order,
    order_hash,
    read_order,
)


def test_the_order_of_seed_1993_is_numpys_permutation() -> None:
    assert list(SEED1993_CIFAR100) == np.random.RandomState(1993).permutation(100).tolist()
    assert SEED1993_CIFAR100[:10] == (68, 56, 78, 8, 23, 84, 90, 65, 74, 76)
    assert SEED1993_CIFAR100[-4:] == (29, 49, 57, 33)


def test_icarls_order_is_drawn_after_the_images_of_every_class_were_shuffled() -> None:
    random = np.random.RandomState(1993)
    for _ in range(100):
        random.shuffle(np.arange(500))
    order = np.arange(100)
    random.shuffle(order)
    assert list(ICARL_CIFAR100) == order.tolist()
    assert ICARL_CIFAR100[:10] == (87, 0, 52, 58, 44, 91, 68, 97, 51, 15)
    assert ICARL_CIFAR100[-4:] == (54, 26, 35, 39)


def test_names_give_their_orders() -> None:
    assert class_order("natural", 5) == (0, 1, 2, 3, 4)
    assert class_order("seed1993", 100) == SEED1993_CIFAR100
    assert class_order("icarl", 100) == ICARL_CIFAR100
    assert class_order("seed1993", 1000)[:10] == (54, 7, 894, 512, 126, 337, 988, 11, 284, 493)
    assert class_order("seed:7", 20) == tuple(np.random.RandomState(7).permutation(20))


def test_the_seed_written_out_is_the_constant() -> None:
    assert class_order("seed:1993", 100) == SEED1993_CIFAR100


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(1, 200))
def test_an_order_has_every_class_once_as_a_plain_number(seed: int, n_classes: int) -> None:
    order = class_order(f"seed:{seed}", n_classes)
    assert sorted(order) == list(range(n_classes))
    assert {type(number) for number in order} == {int}


@pytest.mark.parametrize("n_classes", [10, 99, 101, 1000])
def test_icarls_order_is_for_100_classes_only(n_classes: int) -> None:
    with pytest.raises(EnergyAlignError, match=f"for 100 classes only, not for {n_classes}"):
        class_order("icarl", n_classes)


@pytest.mark.parametrize("name", ["", "random", "seed", "seed:", "seed:-1", "seed:1.5", "seed:x", "seed: 1", "Natural"])
def test_an_unknown_name_is_told_the_choices(name: str) -> None:
    with pytest.raises(EnergyAlignError, match="unknown class order") as error:
        class_order(name, 100)
    assert all(choice in str(error.value) for choice in ORDERS)


def test_a_seed_beyond_the_generators_range_is_refused() -> None:
    with pytest.raises(EnergyAlignError, match=r"'seed:4294967296' must be <= 4294967295"):
        class_order(f"seed:{2**32}", 100)


@pytest.mark.parametrize("name", [name.replace("N", "3") for name in ORDERS if name != "FILE.json"])
def test_every_listed_name_can_be_asked_for(name: str) -> None:
    assert len(class_order(name, 100)) == 100


def test_a_file_lists_classes_by_name_or_number(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text('["owl", 0, "dog"]')
    assert class_order(read_order(str(path)), 3, ["cat", "dog", "owl"]) == (2, 0, 1)
    assert read_order("natural") == "natural"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('["owl", 0]', "each of the 3 classes once: it has 2 entries"),
        ('["owl", 0, "cat"]', "each of the 3 classes once: it has 3 entries"),
        ('["owl", 0, "cow"]', "unknown classes are cow"),
        ('{"owl": 0}', "must hold a JSON list"),
        ("[", "cannot read the class order of"),
    ],
)
def test_a_file_that_is_no_order_is_refused(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(content)
    with pytest.raises(EnergyAlignError, match=problem):
        class_order(read_order(str(path)), 3, ["cat", "dog", "owl"])


def test_the_hash_is_of_the_numbers_joined_by_commas() -> None:
    assert order_hash((2, 0, 1)) == hashlib.sha256(b"2,0,1").hexdigest()
    assert order_hash(SEED1993_CIFAR100) == "997a048a5344d216db0a03489cfdfd9b82e9353c7e9494f77f8d8bca56121c7e"
    assert order_hash(ICARL_CIFAR100) == "62e36f48cf4f51c7f8af22782b6e82a508419bb57eb217ce0c365060eff49b5a"


def test_the_hash_tells_orders_apart_that_run_together() -> None:
    assert order_hash((1, 23)) != order_hash((12, 3))
