"""Which images a long-tail cut keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.cut import cut_long_tail, long_tail_indices, profile_counts


def published_selection(targets, img_num_per_cls, rand_number=0):
    """The published procedure in its own terms: numpy's global generator, one class after the other."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(rand_number)  # noqa: NPY002
    kept = []
    for the_class in np.unique(targets):
        idx = np.where(targets == the_class)[0]
        np.random.shuffle(idx)  # noqa: NPY002
        kept += list(idx[: img_num_per_cls[the_class]])
    np.random.set_state(state)  # noqa: NPY002
    return kept


@pytest.mark.parametrize(("n_classes", "n_max"), [(10, 5000), (100, 500)], ids=["CIFAR-10", "CIFAR-100"])
@pytest.mark.parametrize("imbalance", [100, 50, 10])
def test_the_seed_0_selection_is_the_published_one(n_classes, n_max, imbalance):
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(n_classes), n_max))
    counts = profile_counts("exponential", n_max, n_classes, imbalance)
    assert long_tail_indices(labels, counts, 0).tolist() == published_selection(labels, counts)


def test_first_indices_of_seed_0():
    """Fixed numbers, so that a change in NumPy's legacy stream would be seen as well."""
    labels = np.arange(100) % 10
    assert long_tail_indices(labels, np.full(10, 2), 0).tolist()[:6] == published_selection(labels, [2] * 10)[:6]
    assert long_tail_indices(labels, np.full(10, 2), 0).tolist()[:6] == [20, 80, 31, 51, 22, 32]


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    long_tail_indices(np.arange(100) % 10, np.full(10, 2), 0)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    labels=st.lists(st.integers(0, 4), min_size=60, max_size=120),
    data=st.data(),
)
def test_counts_order_and_nesting(seed, labels, data):
    labels = np.array(labels)
    available = np.bincount(labels, minlength=5)
    larger = np.array([data.draw(st.integers(0, int(n))) for n in available])
    smaller = np.array([data.draw(st.integers(0, int(n))) for n in larger])
    kept = long_tail_indices(labels, larger, seed)
    assert len(set(kept.tolist())) == len(kept)
    assert (np.bincount(labels[kept], minlength=5) == larger).all()
    assert np.all(np.diff(labels[kept]) >= 0)
    assert set(long_tail_indices(labels, smaller, seed).tolist()) <= set(kept.tolist())


def test_a_class_with_too_few_images():
    with pytest.raises(EnergyAlignError, match="class 1 has 2 images, but 3 are asked for"):
        long_tail_indices(np.array([0, 0, 0, 1, 1]), np.array([3, 3]), 0)


def test_a_seed_that_numpy_does_not_have():
    with pytest.raises(EnergyAlignError, match=r"the seed of the cut is -1; it must be one of 0\.\."):
        long_tail_indices(np.array([0, 1]), np.array([1, 1]), -1)


def test_cut_of_an_image_set(small):
    train = small(300)
    manifest = cut_long_tail(train, imbalance=10, seed=4, test=train.subset(range(60)))
    assert manifest.counts == (100, 31, 10)
    assert (manifest.profile, manifest.imbalance, manifest.seed) == ("exponential", 10.0, 4)
    assert manifest.dataset == "small train"
    kept = manifest.select(train)
    assert np.bincount(kept.labels).tolist() == [100, 31, 10]
    assert (kept.images[7] == train.images[int(manifest.indices[7])]).all()


def test_other_ways_to_cut(small):
    train = small(30)
    assert cut_long_tail(train, profile="step", imbalance=5, n_max=5).counts == (5, 1, 1)
    assert cut_long_tail(train, profile={"a": 4, "b": 3, "c": 2}).counts == (4, 3, 2)
    natural = cut_long_tail(train, profile="natural")
    assert natural.indices.tolist() == list(range(30))
    assert (natural.counts, natural.imbalance) == ((10, 10, 10), 1.0)
    with pytest.raises(EnergyAlignError, match="class 0 has 10 images, but 11"):
        cut_long_tail(train, n_max=11, imbalance=2)
    with pytest.raises(EnergyAlignError, match="small train has no images of these classes: b"):
        cut_long_tail(train.subset(np.flatnonzero(train.labels != 1)), profile="natural")
