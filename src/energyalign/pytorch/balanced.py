"""Draw a class-balanced, augmented sample of the training data: the paper's evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import functional as F

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, classes_of
from energyalign.pytorch.augment import N_NUMBERS, BatchTransform, make_policy

Item: TypeAlias = tuple[torch.Tensor, int]


def balanced_evidence(
    dataset: Any,
    labels: npt.ArrayLike,
    per_class: int,
    *,
    augment: str = "two",
    normalize: Callable[[torch.Tensor], torch.Tensor] | None = None,
    seed: int = 0,
    batch_size: int = 256,
    num_workers: int = 0,
) -> DataLoader[Any]:
    """Draw `per_class` images of every class from the training data, each with its own random transformation.

    Images of a class with fewer images are drawn several times, as evenly as possible.

    Parameters
    ----------
    dataset : indexable
        ``dataset[i]`` is an image or ``(image, label)``; a tensor (channels, height, width) of uint8 or of floats in
        [0, 1], a NumPy array (height, width[, channels]) of uint8, or a PIL image. All of one size, not normalised yet.
    labels : sequence of int
        Class index of every image of the dataset (``dataset.targets`` of torchvision).
    per_class : int
        Number of images to draw of every class.
    augment : {"two", "one", "half", "crop-flip", "none"}, default="two"
        Augmentation policy; see `energyalign.pytorch.augment.POLICIES`.
    normalize : callable, default=None
        Applied to the augmented image, for example ``v2.Normalize(mean, std)``.
    seed : int, default=0
        Determines the draws and their transformations, whatever the batch size and the number of workers.
    batch_size : int, default=256
        Images per batch of the loader.
    num_workers : int, default=0
        Processes that read and transform images; useful for files, not for small images in memory.

    Returns
    -------
    torch.utils.data.DataLoader
        Yields ``(images, labels)`` batches, the same in every pass, with every class equally often. Ranks of a process
        group share the work with ``DataLoader(evidence.dataset, sampler=range(rank, n, world_size))``.

    Examples
    --------
    >>> loader = balanced_evidence(train_set, train_set.targets, per_class=50)  # doctest: +SKIP
    >>> aligned = align(model, loader, counts=train_counts)  # doctest: +SKIP
    """
    for name, value, minimum in (("per_class", per_class, 1), ("batch_size", batch_size, 1), ("seed", seed, 0)):
        if not isinstance(value, (int, np.integer)) or value < minimum:
            raise EnergyAlignError(f"{name} must be an integer >= {minimum}, got {value!r}.")
    classes = _checked_labels(labels, dataset)
    indices = draw_evenly(classes, per_class, np.random.default_rng(seed))
    return DataLoader(
        Draws(dataset, indices, classes[indices], transform=make_policy(augment), normalize=normalize, seed=seed),
        batch_size=batch_size,
        num_workers=num_workers,
        generator=torch.Generator(),  # a separate generator, so that reading does not change the global state
    )


class Draws(Dataset[Item]):  # type: ignore[misc]
    """Randomly transformed images of a dataset; draw k is always the same."""

    def __init__(
        self,
        dataset: Any,
        indices: Ints,
        labels: Ints,
        *,
        transform: BatchTransform,
        normalize: Callable[[torch.Tensor], torch.Tensor] | None,
        seed: int,
    ) -> None:
        self.dataset, self.indices, self.labels = dataset, indices, labels
        self.transform, self.normalize = transform, normalize
        self.seeds = np.random.SeedSequence(seed).generate_state(len(indices), np.uint64) >> 1

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, number: int) -> Item:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Item]:
        """Return several draws; DataLoader asks for those of a batch."""
        pixels, uniform = [], []
        with _generator_kept() as generator:
            for number in numbers:
                generator.manual_seed(int(self.seeds[number]))
                index = int(self.indices[number])
                pixels.append(_pixels(self.dataset[index], index))  # the dataset may draw random numbers too
                uniform.append(torch.rand(N_NUMBERS))
        images: Iterable[torch.Tensor] = self.transform(
            _as_floats(_stack(pixels), self.indices[list(numbers)]), torch.stack(uniform)
        )
        if self.normalize is not None:
            images = map(self.normalize, images)
        return [(image, int(self.labels[number])) for image, number in zip(images, numbers, strict=True)]


def _checked_labels(labels: npt.ArrayLike, dataset: Any) -> Ints:
    classes = np.asarray(labels)
    if classes.ndim != 1 or len(classes) == 0 or classes.dtype.kind not in "iu" or classes.min() < 0:
        raise EnergyAlignError("labels must hold a class index (0, 1, 2, ...) for every image of the dataset.")
    if len(classes) != len(dataset):
        raise EnergyAlignError(f"labels must have one entry per image, got {len(classes)} for {len(dataset)} images.")
    missing = np.flatnonzero(np.bincount(classes) == 0)
    if len(missing):
        raise EnergyAlignError(
            f"the dataset has no image of {classes_of(missing.tolist())}: add some, or leave the class out."
        )
    return classes.astype(np.int64)


def draw_evenly(classes: Ints, per_class: int, generator: np.random.Generator) -> Ints:
    """Return indices of `per_class` images of every class; classes take turns.

    Images of a class come in random order, repeated if there are too few. Taking turns makes every batch, and every
    rank's share, nearly balanced.
    """
    columns = []
    for k in range(int(classes.max()) + 1):
        members = np.flatnonzero(classes == k)
        rounds = -(-per_class // len(members))
        columns.append(np.concatenate([generator.permutation(members) for _ in range(rounds)])[:per_class])
    return np.stack(columns, axis=1).reshape(-1)


def _pixels(item: Any, index: int) -> torch.Tensor:
    """Return the image of an item as a tensor (channels, height, width)."""
    image = item[0] if isinstance(item, (tuple, list)) else item
    if type(image) is torch.Tensor and image.dtype == torch.uint8 and image.ndim == 3:
        return image  # the common case, without torchvision's checks: they take longer than a transformation
    try:
        pixels = F.to_image(image)
    except (TypeError, ValueError) as error:
        raise EnergyAlignError(f"item {index} of the dataset must be an image: {error}.") from error
    if not pixels.is_floating_point() and pixels.dtype not in (torch.uint8, torch.uint16, torch.bool):
        # `to_dtype` would divide by the range of the type: images of 0..255 would become black.
        raise EnergyAlignError(f"image {index} must hold uint8, or floats in [0, 1], got {pixels.dtype}.")
    return pixels.as_subclass(torch.Tensor)


def _stack(images: Sequence[torch.Tensor]) -> torch.Tensor:
    kinds = sorted({(tuple(image.shape), str(image.dtype)) for image in images})
    if len(kinds) > 1:
        got = " and ".join(f"{shape} of {dtype}" for shape, dtype in kinds[:2])
        raise EnergyAlignError(
            f"images must have the same shape and dtype, got {got}: convert them in the dataset's transform."
        )
    return torch.stack(list(images))


def _as_floats(images: torch.Tensor, indices: Ints) -> torch.Tensor:
    """Return the images as floats in [0, 1]."""
    floats = F.to_dtype(images, torch.float32, scale=True)
    if images.is_floating_point():
        low, high = torch.aminmax(floats.flatten(1), dim=1)
        outside = ~((low >= 0.0) & (high <= 1.0))  # NaN is outside too
        if outside.any():
            raise EnergyAlignError(
                f"image {indices[int(outside.int().argmax())]} must have values in [0, 1]: give images before "
                "normalisation, and use normalize=... for it."
            )
    return floats


@contextlib.contextmanager
def _generator_kept() -> Iterator[torch.Generator]:
    """Lend the CPU's global generator, which torchvision uses, and restore its state afterwards.

    `torch.manual_seed` also queues the seed for every other device type, which takes longer than a transformation.
    """
    generator = torch.random.default_generator
    before = generator.get_state()
    try:
        yield generator
    finally:
        generator.set_state(before)
