"""Batches of small images: augmentation compared with a loop, resuming, ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.loader import Loader, evaluation_batches
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation

anything = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def one_by_one(image, top, left, flipped, padding):
    """Pad, crop and flip one image at a time."""
    channels, height, width = image.shape
    canvas = np.zeros((channels, height + 2 * padding, width + 2 * padding), dtype=np.uint8)
    canvas[:, padding : padding + height, padding : padding + width] = image
    crop = canvas[:, top : top + height, left : left + width]
    return crop[:, :, ::-1] if flipped else crop


def same(first, second):
    return len(first) == len(second) and all(
        torch.equal(a.images, b.images) and torch.equal(a.labels, b.labels) for a, b in zip(first, second, strict=True)
    )


@anything
@given(n=st.integers(1, 40), padding=st.integers(0, 4), channels=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_crop_and_flip_of_a_batch_are_those_of_its_images(small, n, padding, channels, seed):
    images = small(n, channels=channels, padding=padding)
    draws = images.preparation.draw(n, np.random.default_rng(seed))
    batch = images.preparation.augment(images.images, draws)
    for image, result, (top, left, flipped) in zip(images.images.numpy(), batch.numpy(), draws, strict=True):
        assert (result == one_by_one(image, top, left, flipped, padding)).all()


def test_draws_cover_all_crops_and_flips_evenly():
    preparation = SmallPreparation(Normalisation((0.5,), (0.5,)))
    draws = preparation.draw(40_000, np.random.default_rng(0))
    for column, size in ((0, 9), (1, 9), (2, 2)):
        shares = np.bincount(draws[:, column], minlength=size) / len(draws)
        assert len(shares) == size
        assert np.abs(shares - 1 / size).max() < 0.01
    unflipped = SmallPreparation(Normalisation((0.5,), (0.5,)), flip=False)
    assert not unflipped.draw(100, np.random.default_rng(0))[:, 2].any()


def test_normalisation_is_that_of_the_papers(small):
    images = small()
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)))
    expected = (images.images.float() / 255 - mean) / std
    torch.testing.assert_close(images.preparation.normalise(images.images), expected)


def test_an_epoch_shows_every_image_once_and_in_another_order_than_the_next(small):
    images = small(23, padding=0, flip=False)
    loader = Loader(images, batch_size=5, seed=3)
    assert loader.n_batches == 5
    epochs = [torch.cat([batch.images for batch in loader.epoch(number)]) for number in (0, 1)]
    assert not torch.equal(epochs[0], epochs[1])
    expected = images.preparation.normalise(images.images).flatten(1)
    for epoch in epochs:
        assert sorted(epoch.flatten(1).tolist()) == sorted(expected.tolist())


def test_labels_belong_to_their_images(small):
    images = small(23, padding=0, flip=False)
    known = {tuple(row.tolist()): label for row, label in
             zip(images.preparation.normalise(images.images).flatten(1), images.labels, strict=True)}  # fmt: skip
    for batch in Loader(images, batch_size=5, seed=3).epoch(7):
        assert [known[tuple(row.tolist())] for row in batch.images.flatten(1)] == batch.labels.tolist()


@anything
@given(
    n=st.integers(1, 40), batch_size=st.integers(1, 12), seed=st.integers(0, 9), epoch=st.integers(0, 300),
    data=st.data(),
)  # fmt: skip
def test_a_resumed_epoch_gives_what_was_left(small, n, batch_size, seed, epoch, data):
    loader = Loader(small(n), batch_size=batch_size, seed=seed)
    whole = list(loader.epoch(epoch))
    sizes = [len(batch.labels) for batch in whole]
    assert len(sizes) == loader.n_batches
    if n > batch_size and n % batch_size == 1:
        assert sizes == [batch_size] * (n // batch_size - 1) + [batch_size + 1]
    else:
        assert sizes == [min(batch_size, n - first) for first in range(0, n, batch_size)]
    start = data.draw(st.integers(0, loader.n_batches))
    again = Loader(small(n), batch_size=batch_size, seed=seed)
    assert same(list(again.epoch(epoch, start=start)), whole[start:])


@anything
@given(
    n=st.integers(12, 40), batch_size=st.integers(4, 12), world_size=st.integers(1, 4), epoch=st.integers(0, 9),
)  # fmt: skip
def test_ranks_together_have_the_batch_of_one_process(small, n, batch_size, world_size, epoch):
    if 1 < n % batch_size < world_size:
        return  # refused: too few in the last batch
    loader = Loader(small(n), batch_size=batch_size, seed=1)
    parts = [list(loader.epoch(epoch, rank=rank, world_size=world_size)) for rank in range(world_size)]
    for number, whole in enumerate(loader.epoch(epoch)):
        images, labels = torch.empty_like(whole.images), torch.empty_like(whole.labels)
        for rank in range(world_size):
            images[rank::world_size], labels[rank::world_size] = parts[rank][number]
        assert torch.equal(images, whole.images)
        assert torch.equal(labels, whole.labels)


@pytest.mark.parametrize(("n", "batch_size", "sizes"), [(21, 5, [5, 5, 5, 6]), (6, 5, [6]), (3, 2, [3])])
def test_no_image_is_left_alone_in_the_last_batch(small, n, batch_size, sizes):
    """Batch normalisation cannot train on a single image."""
    loader = Loader(small(n, padding=0, flip=False), batch_size=batch_size, seed=0)
    batches = list(loader.epoch(0))
    assert [len(batch.labels) for batch in batches] == sizes
    seen = torch.cat([batch.images for batch in batches]).flatten(1)
    assert len(torch.unique(seen, dim=0)) == n
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 4), torch.nn.BatchNorm1d(4)).train()
    for batch in batches:
        network(batch.images)


def test_three_images_in_batches_of_two_are_enough_for_three_processes(small):
    loader = Loader(small(3), batch_size=2, seed=0)
    assert [len(next(loader.epoch(0, rank=rank, world_size=3)).labels) for rank in range(3)] == [1, 1, 1]
    with pytest.raises(EnergyAlignError, match="the smallest batch has 2 images, too few for 3 processes"):
        Loader(small(5), batch_size=2, seed=0).epoch(0, world_size=3)


def test_seed_epoch_and_batch_all_matter(small):
    images = small(1).subset([0] * 8)  # equal images: only the augmentation differs

    def batches(seed, epoch):
        return [batch.images for batch in Loader(images, batch_size=4, seed=seed).epoch(epoch)]

    seen = [*batches(0, 0), *batches(0, 1), *batches(1, 0)]
    assert all(not torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_an_order_of_ones_own(small):
    images = small(9, padding=0, flip=False)

    def tail_twice(epoch):
        return np.array([2, 2, 5, 5, 8, 8, epoch])

    loader = Loader(images, batch_size=4, seed=0, order=tail_twice)
    assert loader.n_batches == 2
    assert torch.cat([batch.labels for batch in loader.epoch(1)]).tolist() == [2, 2, 2, 2, 2, 2, 1]


def test_evaluation_is_in_order_and_untouched(small):
    images = small(23)
    batches = list(evaluation_batches(images, batch_size=10))
    assert [len(batch.labels) for batch in batches] == [10, 10, 3]
    assert torch.equal(torch.cat([batch.images for batch in batches]), images.preparation.normalise(images.images))
    assert torch.cat([batch.labels for batch in batches]).tolist() == images.labels.tolist()


def test_steps_of_the_published_recipes():
    """10,847 images in batches of 128 are 85 steps, including the last batch (LDAM)."""
    images = MemoryImages(
        "empty", torch.zeros(10_847, 1, 1, 1, dtype=torch.uint8), np.zeros(10_847, dtype=np.int64), ("a", "b"),
        SmallPreparation(Normalisation((0.5,), (0.5,))),
    )  # fmt: skip
    assert Loader(images, batch_size=128, seed=0).n_batches == 85


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({"batch_size": 0}, {}, "batch size must be >= 1, got 0"),
        ({"batch_size": 5}, {"start": 6}, "the first batch must be in 0..5, got 6"),
        ({"batch_size": 5}, {"rank": 2, "world_size": 2}, "the rank must be in 0..1, got 2"),
        ({"batch_size": 5}, {"world_size": 4}, "the smallest batch has 3 images, too few for 4 processes"),
        ({"batch_size": 5, "seed": -1}, {}, "the seed must be >= 0, got -1"),
        ({"batch_size": 5, "order": lambda epoch: np.arange(5 + epoch)}, {}, "epoch 0, got 7 in epoch 2"),
        ({"batch_size": 5, "order": lambda _: np.arange(0)}, {}, "no images to make batches of"),
    ],
)
def test_bad_requests_are_refused_before_the_first_batch(small, options, arguments, message):
    with pytest.raises(EnergyAlignError, match=message):
        Loader(small(23), **{"seed": 0, **options}).epoch(2, **arguments)


def test_bad_images():
    preparation = SmallPreparation(Normalisation((0.5,), (0.5,)))
    labels = np.array([0, 2])
    with pytest.raises(EnergyAlignError, match=r"x: images must be uint8 .* got torch.float32"):
        MemoryImages("x", torch.zeros(2, 1, 2, 2), labels, ("a", "b"), preparation)
    with pytest.raises(EnergyAlignError, match=r"x: label 2 of image 1 is out of range"):
        MemoryImages("x", torch.zeros(2, 1, 2, 2, dtype=torch.uint8), labels, ("a", "b"), preparation)
    with pytest.raises(EnergyAlignError, match=r"labels must have the shape \(3,\), one for each image"):
        MemoryImages("x", torch.zeros(3, 1, 2, 2, dtype=torch.uint8), labels, ("a", "b"), preparation)
    with pytest.raises(EnergyAlignError, match="must be MemoryImages or FileImages, got list"):
        Loader([1], batch_size=1, seed=0)
