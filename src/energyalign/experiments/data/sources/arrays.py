"""Arrays of images or features, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.data.sources import Source, hold_out
from energyalign.experiments.data.sources.features import class_names, class_numbers, make_features


def arrays(
    x_train: npt.ArrayLike, y_train: npt.ArrayLike, x_test: npt.ArrayLike | None = None,
    y_test: npt.ArrayLike | None = None, *, names: Sequence[str] | None = None, name: str = "own", flip: bool = True,
) -> Source:  # fmt: skip
    """Make a data set for `longtail` and `incremental` from arrays.

    Parameters
    ----------
    x_train, x_test : array
        Images, uint8 of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width) with 1
        or 3 channels; or features, floating point of shape (n, n_features). Without a test part, a fifth of every class
        is held out, with a fixed seed.
    y_train, y_test : array
        Class numbers from 0, or class names.
    names : sequence of str, default None
        Class names in the order of the class numbers.
    name : str, default "own"
        Name of the data set in tables and folders.
    flip : bool, default True
        Whether to augment with mirror images.
    """
    parts = {"train": (np.asarray(x_train), np.asarray(y_train))}
    if (x_test is None) != (y_test is None):
        raise EnergyAlignError("x_test and y_test must be given together.")
    if x_test is not None:
        parts["test"] = (np.asarray(x_test), np.asarray(y_test))
    for part, (samples, labels) in parts.items():
        if len(np.atleast_1d(samples)) != len(np.atleast_1d(labels)):
            raise EnergyAlignError(
                f"x_{part} and y_{part} must have equally many samples, got the shapes {samples.shape} and "
                f"{labels.shape}."
            )
    is_features = parts["train"][0].ndim == 2
    return OwnArrays(f"{'features' if is_features else 'images'}:{name}", parts, names, flip=flip)


class OwnArrays(Source):
    """Data set made by `arrays`."""

    how_to_get = "It is in memory."

    def __init__(
        self, name: str, parts: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]], names: Sequence[str] | None, *,
        flip: bool,
    ) -> None:  # fmt: skip
        self.name, self._parts, self._flip = name, parts, flip
        given = None if names is None else np.array(list(names), dtype=str)
        self._names = class_names(name, parts["train"][1], given)

    def files(self, split: str) -> Sequence[Path]:  # noqa: ARG002
        return []

    def _load(self, split: str) -> ImageSet:
        samples, labels = self._parts.get(split, self._parts["train"])
        name = f"{self.name} {split}"
        numbers = class_numbers(name, labels, self._names)
        train = self._parts["train"][0]
        loaded: ImageSet
        if train.ndim == 2:
            loaded = make_features(name, samples, numbers, self._names, train=train)
        else:
            pixels = _channels_first(samples, name)
            preparation = _prepare_for(_channels_first(train, name), flip=self._flip)
            loaded = MemoryImages(name, torch.from_numpy(pixels), numbers, self._names, preparation)
        return loaded if "test" in self._parts else hold_out(loaded, split)


def _channels_first(images: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[1] not in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        raise EnergyAlignError(
            f"{name}: images must be uint8 of shape (n, height, width), with 1 or 3 channels before or after height "
            f"and width, and features floating point of shape (n, n_features), got {images.dtype} of shape "
            f"{images.shape}."
        )
    return np.ascontiguousarray(images)


def _prepare_for(train: npt.NDArray[np.uint8], *, flip: bool) -> SmallPreparation:
    """Normalise by the training pixels, and pad by an eighth of the side like CIFAR."""
    mean, std = (train.mean(axis=(0, 2, 3)) / 255).tolist(), (train.std(axis=(0, 2, 3)) / 255).tolist()
    normalisation = Normalisation(tuple(mean), tuple(value or 1.0 for value in std))
    return SmallPreparation(normalisation, padding=max(1, train.shape[-1] // 8), flip=flip)
