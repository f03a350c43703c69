"""A balanced sample of imbalanced data, equal for equal seeds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from energyalign import EnergyAlignError
from energyalign.pytorch import align, balanced_evidence

LABELS = np.repeat([0, 1, 2], [20, 5, 2])


@pytest.fixture
def images() -> torch.Tensor:
    """Return images of one grey value each, which is their index."""
    return torch.arange(27, dtype=torch.uint8).reshape(27, 1, 1, 1).expand(27, 3, 8, 8).contiguous()


def drawn(loader: Any) -> tuple[torch.Tensor, torch.Tensor]:
    batches = list(loader)
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])


def test_classes_are_equal_and_images_used_evenly(images: torch.Tensor) -> None:
    x, y = drawn(balanced_evidence(images, LABELS, per_class=12, augment="none"))
    assert torch.bincount(y).tolist() == [12, 12, 12]
    numbers = (x[:, 0, 0, 0] * 255).round().long()
    assert torch.equal(torch.from_numpy(LABELS)[numbers], y)
    uses = np.bincount(numbers, minlength=27)
    assert uses[:20].max() == 1  # 12 of 20 different ones
    assert set(uses[20:25].tolist()) == {2, 3}  # 5 images for 12 draws
    assert uses[25:].tolist() == [6, 6]


def test_every_batch_is_balanced(images: torch.Tensor) -> None:
    for _, labels in balanced_evidence(images, LABELS, per_class=10, batch_size=6):
        assert torch.bincount(labels).tolist() == [2, 2, 2]


def test_the_same_whenever_and_however_it_is_read(images: torch.Tensor) -> None:
    loader = balanced_evidence(images, LABELS, per_class=6, augment="two", seed=3)
    x, _ = drawn(loader)
    for again in (
        loader,
        balanced_evidence(images, LABELS, per_class=6, augment="two", seed=3, batch_size=5),
        balanced_evidence(images, LABELS, per_class=6, augment="two", seed=3, num_workers=2),
    ):
        assert torch.equal(drawn(again)[0], x)
    assert not torch.equal(drawn(balanced_evidence(images, LABELS, per_class=6, augment="two", seed=4))[0], x)


def test_draws_of_one_image_differ() -> None:
    picture = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    x, _ = drawn(balanced_evidence(picture, [0], per_class=40, augment="one"))
    assert len({tuple(row.tolist()) for row in x.reshape(40, -1)}) > 25  # the two flips come again and again


class Drawing(Dataset[Any]):
    """A dataset with a random transformation, like training sets."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.images[index].float() / 255.0 * torch.rand(())


def test_a_dataset_that_draws_is_fixed_by_the_seed_too(images: torch.Tensor) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, _ = drawn(balanced_evidence(Drawing(images), LABELS, per_class=4, seed=1))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    again, _ = drawn(balanced_evidence(Drawing(images), LABELS, per_class=4, seed=1, num_workers=1))
    assert torch.equal(first, again)


def test_a_huge_seed_is_a_seed(images: torch.Tensor) -> None:
    assert len(drawn(balanced_evidence(images, LABELS, per_class=2, seed=2**64))[0]) == 6


def test_the_callers_random_state_is_left_alone(images: torch.Tensor) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    drawn(balanced_evidence(images, LABELS, per_class=4, augment="half"))
    assert torch.equal(torch.get_rng_state(), state)


def test_ranks_share_the_draws_of_one_process(images: torch.Tensor) -> None:
    whole = balanced_evidence(images, LABELS, per_class=6, normalize=lambda image: image - 0.5)
    x, _ = drawn(whole)
    parts = [drawn(DataLoader(whole.dataset, 4, sampler=range(rank, 18, 2)))[0] for rank in range(2)]
    assert torch.equal(torch.stack(parts, 1).reshape(x.shape), x)


class Pictures(Dataset[Any]):
    """A dataset like torchvision's: (PIL image, label)."""

    def __init__(self, images: torch.Tensor) -> None:
        self.pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return self.pictures[index], int(LABELS[index])


@pytest.mark.parametrize("form", ["float", "numpy", "PIL"])
def test_forms_of_images_are_equal(form: str, images: torch.Tensor) -> None:
    expected, _ = drawn(balanced_evidence(images, LABELS, per_class=3))
    dataset: Any = {
        "float": images.float() / 255.0,
        "numpy": images.permute(0, 2, 3, 1).numpy(),
        "PIL": Pictures(images),
    }[form]
    torch.testing.assert_close(drawn(balanced_evidence(dataset, LABELS, per_class=3))[0], expected)


def test_normalisation_comes_last(images: torch.Tensor) -> None:
    plain, _ = drawn(balanced_evidence(images, LABELS, per_class=3))
    scaled, _ = drawn(balanced_evidence(images, LABELS, per_class=3, normalize=lambda x: (x - 0.5) / 0.25))
    torch.testing.assert_close(scaled, (plain - 0.5) / 0.25)


def test_it_feeds_align() -> None:
    """For a network that prefers class 0, on images whose brightness is their class."""
    generator = torch.Generator().manual_seed(0)
    labels = np.repeat([0, 1, 2], [60, 20, 6])
    images = (
        (0.2 + 0.3 * torch.from_numpy(labels))[:, None, None, None] + 0.1 * torch.rand(86, 1, 4, 4, generator=generator)
    ).float()
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        network[1].weight.copy_(torch.tensor([[-1.0], [0.0], [1.0]]).expand(3, 16))
        network[1].bias.copy_(torch.tensor([20.0, 6.0, -12.0]))
    raw = network(images).argmax(1).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # training evidence: warnings do not matter here
        aligned = align(
            network, balanced_evidence(images, labels, 30, augment="none"), estimator="marginal", clusters="per-class"
        )
    corrected = aligned(images).argmax(1).numpy()
    assert np.mean(raw == labels) < 0.75 < np.mean(corrected == labels)


class TestBadInput:
    def test_labels_of_another_length(self, images: torch.Tensor) -> None:
        with pytest.raises(EnergyAlignError, match="got 26 for 27 images"):
            balanced_evidence(images, LABELS[:-1], per_class=3)

    def test_a_class_without_images(self, images: torch.Tensor) -> None:
        with pytest.raises(EnergyAlignError, match="the dataset has no image of class 2"):
            balanced_evidence(images, np.where(LABELS == 2, 3, LABELS), per_class=3)

    @pytest.mark.parametrize("labels", [[], LABELS - 1, LABELS + 0.5, LABELS.reshape(3, 9)])
    def test_what_is_no_label(self, labels: Any, images: torch.Tensor) -> None:
        with pytest.raises(EnergyAlignError, match="labels must hold a class index"):
            balanced_evidence(images, labels, per_class=3)

    @pytest.mark.parametrize("options", [{"per_class": 0}, {"batch_size": 0}, {"seed": -1}, {"per_class": 5.0}])
    def test_what_is_no_number_of_things(self, options: dict[str, Any], images: torch.Tensor) -> None:
        name = next(iter(options))
        with pytest.raises(EnergyAlignError, match=rf"{name} must be an integer >= [01], got"):
            balanced_evidence(images, LABELS, **{"per_class": 3, **options})

    def test_images_normalised_already(self, images: torch.Tensor) -> None:
        with pytest.raises(EnergyAlignError, match=r"image \d+ must have values in \[0, 1\]: give images before"):
            drawn(balanced_evidence(images.float() - 0.5, LABELS, per_class=3))

    @pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
    def test_whole_numbers_of_another_kind(self, dtype: torch.dtype, images: torch.Tensor) -> None:
        with pytest.raises(EnergyAlignError, match=r"image \d+ must hold uint8, or floats .*, got torch.int\d+"):
            drawn(balanced_evidence(images.to(dtype), LABELS, per_class=3))

    def test_nan(self) -> None:
        with pytest.raises(EnergyAlignError, match="image 0 must have values in"):
            drawn(balanced_evidence(torch.full((1, 3, 4, 4), torch.nan), [0], per_class=1))

    def test_images_of_several_sizes(self) -> None:
        dataset = [torch.zeros(3, 8, 8), torch.zeros(3, 9, 8)]
        message = r"same shape and dtype, got \(3, 8, 8\) of torch.float32 and \(3, 9, 8\) of torch.float32"
        with pytest.raises(EnergyAlignError, match=message):
            drawn(balanced_evidence(dataset, [0, 1], per_class=1))

    def test_images_of_several_types(self) -> None:
        """Stacked, bytes would become floats from 0 to 255."""
        dataset = [torch.zeros(3, 8, 8, dtype=torch.uint8), torch.zeros(3, 8, 8)]
        with pytest.raises(EnergyAlignError, match=r"must have the same shape and dtype, got .* of torch.uint8"):
            drawn(balanced_evidence(dataset, [0, 1], per_class=1))

    def test_the_image_outside_the_range_is_named(self, images: torch.Tensor) -> None:
        """By its index in the dataset, not by its place in the batch."""
        floats = images / 255
        floats[22] = 1.5
        with pytest.raises(EnergyAlignError, match="image 22 must have values in"):
            drawn(balanced_evidence(floats, LABELS, per_class=12))

    def test_items_that_are_no_images(self) -> None:
        with pytest.raises(EnergyAlignError, match="item 0 of the dataset must be an image"):
            drawn(balanced_evidence(["a.png"], [0], per_class=1))

    def test_an_unknown_policy(self, images: torch.Tensor) -> None:
        with pytest.raises(EnergyAlignError, match="unknown augmentation policy 'lots'"):
            balanced_evidence(images, LABELS, per_class=1, augment="lots")
