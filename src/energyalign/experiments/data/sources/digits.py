"""The handwritten digits of scikit-learn, which need no download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.data.sources import Source

TEST_PER_CLASS = 50
_SPLIT_SEED = 2021  # fixed, so that no run trains on test images of another one


class Digits(Source):
    """1,797 grey images of 8 x 8 pixels, part of scikit-learn.

    The set has no official split. Here 50 images of every class, drawn with a fixed seed, are the test set (500
    images), and the other 1,297 the training set. The 17 grey levels are scaled to 0..255. Augmentation is a shift by
    one pixel, without mirroring.
    """

    name = "digits"
    how_to_get = "It is part of scikit-learn."

    def __init__(self, _data_root: Path | None = None) -> None:
        """Ignore the data root."""

    def files(self, split: str) -> Sequence[Path]:  # noqa: ARG002
        return []

    def _load(self, split: str) -> ImageSet:
        from sklearn.datasets import load_digits

        digits = load_digits()
        labels = digits.target.astype(np.int64)
        pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        rng = np.random.default_rng(_SPLIT_SEED)
        shuffled = [rng.permutation(np.flatnonzero(labels == k)) for k in range(10)]
        part = slice(TEST_PER_CLASS) if split == "test" else slice(TEST_PER_CLASS, None)
        chosen = np.sort(np.concatenate([members[part] for members in shuffled]))
        return MemoryImages(
            f"{self.name} {split}",
            torch.from_numpy(pixels[chosen])[:, None],
            labels[chosen],
            tuple(str(k) for k in range(10)),
            SmallPreparation(Normalisation((0.3053,), (0.3760,)), padding=1, flip=False),
        )
