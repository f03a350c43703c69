"""Batches of images that workers decode: independent of the workers, the start and the rank."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.loader import Loader, evaluation_batches
from energyalign.experiments.data.preparation import IMAGENET_MEAN, IMAGENET_STD, LargePreparation, Normalisation

N = 11

# Python 3.12 and newer warn about forks in processes with threads; DataLoader forks its workers.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def images(tmp_path, write_image):
    names = tuple(f"{k}.png" for k in range(N))
    for k, name in enumerate(names):
        write_image(tmp_path / name, seed=k, size=(40 + k, 36), mode="L" if k == 3 else "RGB")
    preparation = LargePreparation(Normalisation(IMAGENET_MEAN, IMAGENET_STD), jitter=0.4, side=24, resize=32)
    return FileImages(
        "files train", DiskFiles(tmp_path, names), np.arange(N), np.arange(N) % 2, ("a", "b"), preparation
    )


def loader(images, **options):
    return Loader(images, **{"batch_size": 4, "seed": 5, **options})


def same(first, second):
    return len(first) == len(second) and all(
        torch.equal(a.images, b.images) and torch.equal(a.labels, b.labels) for a, b in zip(first, second, strict=True)
    )


def test_workers_do_not_matter(images):
    alone = list(loader(images).epoch(2))
    assert [tuple(batch.images.shape) for batch in alone] == [(4, 3, 24, 24), (4, 3, 24, 24), (3, 3, 24, 24)]
    assert {batch.images.dtype for batch in alone} == {torch.float32}
    assert same(list(loader(images, workers=2).epoch(2)), alone)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_resumed_epoch_gives_what_was_left(images, start):
    assert same(list(loader(images).epoch(1, start=start)), list(loader(images).epoch(1))[start:])


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_have_the_batch_of_one_process(images, world_size):
    parts = [list(loader(images).epoch(1, rank=rank, world_size=world_size)) for rank in range(world_size)]
    for number, whole in enumerate(loader(images).epoch(1)):
        for rank in range(world_size):
            assert torch.equal(whole.images[rank::world_size], parts[rank][number].images)
            assert torch.equal(whole.labels[rank::world_size], parts[rank][number].labels)


def test_epoch_position_and_seed_all_matter(images):
    """The order shows one image in two batches, so that only the augmentation differs."""
    batches = [
        batch.images
        for seed in (0, 1)
        for epoch in (0, 1)
        for batch in loader(images, seed=seed, order=lambda _: np.zeros(8)).epoch(epoch)
    ]
    assert len(torch.unique(torch.cat(batches), dim=0)) == 2 * 2 * 8


def test_the_global_generator_is_as_before(images):
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    list(loader(images).epoch(0))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_global_generator_does_not_matter(images):
    torch.manual_seed(0)
    first = list(loader(images).epoch(0))
    torch.manual_seed(1)
    assert same(first, list(loader(images).epoch(0)))


def test_jitter_is_of_the_set_and_flips_need_none(images):
    names = [type(step).__name__ for step in images.preparation.transformation(augment=True).transforms]
    assert names == ["RandomResizedCrop", "RandomHorizontalFlip", "ColorJitter"]
    plain = LargePreparation(images.preparation.normalise)
    names = [type(step).__name__ for step in plain.transformation(augment=True).transforms]
    assert names == ["RandomResizedCrop", "RandomHorizontalFlip"]


def test_evaluation_is_the_middle_of_the_resized_image(images):
    batches = list(evaluation_batches(images, batch_size=6))
    assert torch.cat([batch.labels for batch in batches]).tolist() == images.labels.tolist()
    for index in (0, 3, N - 1):
        picture = images.picture(index)
        resized = picture.resize((int(32 * picture.width / picture.height), 32), resample=2)  # bilinear
        left, top = round((resized.width - 24) / 2), 4
        middle = torch.from_numpy(np.array(resized.crop((left, top, left + 24, top + 24)))).permute(2, 0, 1)
        found = torch.cat([batch.images for batch in batches])[index]
        # Pillow and torchvision round differently, by at most one of the 255 levels.
        one_level = 1.001 / (255 * min(IMAGENET_STD))
        torch.testing.assert_close(found, images.preparation.normalise(middle[None])[0], rtol=0, atol=one_level)


def test_grey_images_are_read_in_colour(images):
    assert images.read(3).shape == (3, 36, 43)
    assert torch.equal(images.read(3)[0], images.read(3)[2])


def test_make_loader_takes_file_images(images):
    made = Loader(images, batch_size=4, seed=5)
    assert made.n_batches == 3
    assert same(list(made.epoch(0)), list(loader(images).epoch(0)))


def test_a_negative_number_of_workers(images, small):
    for make in (
        lambda: loader(images, workers=-1),
        lambda: Loader(images, batch_size=4, seed=0, workers=-1),
        lambda: Loader(small(), batch_size=4, seed=0, workers=-1),
        lambda: evaluation_batches(small(), batch_size=4, workers=-1),
    ):
        with pytest.raises(EnergyAlignError, match=r"workers must be >= 0 .*, got -1"):
            make()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_breaks_during_training_is_named(images, tmp_path, workers):
    (tmp_path / "6.png").write_bytes(b"no image")
    with pytest.raises(EnergyAlignError, match=r"^cannot read the image \S+/6\.png \(.*\)\. Get the file again[^\n]*$"):
        list(loader(images, workers=workers).epoch(0))
