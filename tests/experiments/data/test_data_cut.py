"""Long-tail cuts: counts and images compared with the published code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyalign.core.errors import EnergyAlignError
from energyalign.core.metrics import shot_groups
from energyalign.experiments.data.cut import PROFILES, cut_long_tail, given_counts, long_tail_indices, profile_counts


def published_selection(targets, img_num_per_cls, rand_number=0):
    """Select images as the published code does: with numpy's global generator, class by class."""
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
    """Fixed numbers, so that a change of NumPy's legacy generator is detected too."""
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
    with pytest.raises(EnergyAlignError, match="class 1 has 2 images, but needs 3"):
        long_tail_indices(np.array([0, 0, 0, 1, 1]), np.array([3, 3]), 0)


def test_a_seed_that_numpy_does_not_have():
    with pytest.raises(EnergyAlignError, match=r"the seed of the subset must be in 0\.\..*, got -1"):
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
    with pytest.raises(EnergyAlignError, match="class 0 has 10 images, but needs 11"):
        cut_long_tail(train, n_max=11, imbalance=2)
    with pytest.raises(EnergyAlignError, match="small train has no images of some classes: b"):
        cut_long_tail(train.subset(np.flatnonzero(train.labels != 1)), profile="natural")


IMAGENET_LT = np.array(json.loads((Path(__file__).parent / "imagenet_lt_train_counts.json").read_text()))


def group_sizes(counts):
    return tuple(int(members.sum()) for members in shot_groups(counts, len(counts)).values())


@pytest.mark.parametrize(
    ("n_max", "n_classes", "totals"),
    [
        (5000, 10, {10: 20431, 20: 17023, 50: 13996, 100: 12406, 200: 11203}),
        (500, 100, {10: 19573, 20: 15907, 50: 12608, 100: 10847, 200: 9502}),
    ],
    ids=["CIFAR-10", "CIFAR-100"],
)
def test_published_totals(n_max, n_classes, totals):
    for imbalance, total in totals.items():
        assert profile_counts("exponential", n_max, n_classes, imbalance).sum() == total


@pytest.mark.parametrize(
    ("imbalance", "counts"),
    [
        (100, [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]),
        (50, [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100]),
        (10, [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]),
    ],
)
def test_published_counts_of_cifar10(imbalance, counts):
    assert profile_counts("exponential", 5000, 10, imbalance).tolist() == counts


def test_published_counts_of_cifar100():
    counts = profile_counts("exponential", 500, 100, 100).tolist()
    assert counts[:5] == [500, 477, 455, 434, 415]
    assert counts[-5:] == [6, 5, 5, 5, 5]


@pytest.mark.parametrize(("imbalance", "sizes"), [(100, (35, 35, 30)), (50, (41, 41, 18)), (10, (69, 31, 0))])
def test_many_medium_and_few_classes_of_cifar100(imbalance, sizes):
    assert group_sizes(profile_counts("exponential", 500, 100, imbalance)) == sizes


def test_imagenet_lt_has_its_published_shape():
    assert IMAGENET_LT.sum() == 115_846
    assert (len(IMAGENET_LT), IMAGENET_LT.max(), IMAGENET_LT.min()) == (1000, 1280, 5)
    assert group_sizes(IMAGENET_LT) == (385, 479, 136)


def test_pareto_is_imagenet_lt_without_the_chance():
    counts = profile_counts("pareto", 1280, 1000, 256)
    assert (counts[0], counts[-1]) == (1280, 5)
    assert int(np.median(counts)) == 66
    assert int(np.median(IMAGENET_LT)) == 73
    assert np.corrcoef(np.log(counts), np.log(np.sort(IMAGENET_LT)[::-1]))[0, 1] > 0.99


def test_step():
    assert profile_counts("step", 5000, 10, 100).tolist() == [5000] * 5 + [50] * 5
    assert profile_counts("step", 30, 5, 10).tolist() == [30, 30, 3, 3, 3]


@settings(deadline=None)
@given(
    name=st.sampled_from(sorted(PROFILES)),
    n_max=st.integers(50, 5000),
    n_classes=st.integers(2, 200),
    imbalance=st.floats(1, 50),
)
def test_every_profile_falls_from_the_largest_to_the_smallest(name, n_max, n_classes, imbalance):
    counts = profile_counts(name, n_max, n_classes, imbalance)
    assert counts.shape == (n_classes,)
    assert counts[0] == n_max
    assert abs(counts[-1] - n_max / imbalance) <= 1
    assert np.all(np.diff(counts) <= 0)


def test_no_imbalance_is_balanced():
    for name in PROFILES:
        assert set(profile_counts(name, 70, 7, 1)) == {70}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("linear", 10, 3, 2), "unknown profile 'linear': choose one of exponential, step, pareto"),
        (("step", 0, 3, 2), "the size of the largest class, must be >= 1, got 0"),
        (("step", 10, 1, 2), "at least 2 classes"),
        (("step", 10, 3, 0.01), "largest over smallest class, must be >= 1, got 0.01"),
        (("step", 10, 3, float("nan")), "largest over smallest class, must be >= 1, got nan"),
        (("exponential", 10, 3, 100), "1 classes would have no image left: choose an imbalance of at most 10"),
    ],
)
def test_bad_profiles(arguments, message):
    with pytest.raises(EnergyAlignError, match=message):
        profile_counts(*arguments)


def test_counts_by_name_or_by_number():
    names = ("cat", "dog", "emu")
    assert given_counts({"emu": 1, "cat": 9, "dog": 4}, names).tolist() == [9, 4, 1]
    assert given_counts({0: 9, 1: 4, 2: 1}, names).tolist() == [9, 4, 1]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"cat": 9, "dog": 4, "fox": 1}, "do not exist: fox"),
        ({"cat": 9, "dog": 4}, "every class needs a count; missing: emu"),
        ({"cat": 9, "dog": 4, "emu": 0}, "'emu' must be a whole number >= 1, got 0"),
        ({"cat": 9, "dog": 4, "emu": 1.5}, "'emu' must be a whole number >= 1, got 1.5"),
        ({"cat": 9, "dog": 4, "emu": True}, "'emu' must be a whole number >= 1, got True"),
    ],
)
def test_bad_counts(counts, message):
    with pytest.raises(EnergyAlignError, match=message):
        given_counts(counts, ("cat", "dog", "emu"))
