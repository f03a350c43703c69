"""scikit-learn's handwritten digits: real images that need no download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.data.sources import Source

TEST_PER_CLASS = 50
_SPLIT_SEED = 2021  # of the split alone, so that no run sees another run's test images; also that of the demo


class Digits(Source):
    """1,797 grey images of 8 x 8 pixels, part of scikit-learn.

    The set has no split of its own. Here 50 images of every class, drawn once with a fixed seed, are the test set
    (500 images), and the other 1,297 the training set. The 17 grey levels are spread over 0..255. Augmentation is
    a shift by one pixel; a mirrored digit would be none.
    """

    name = "digits"
    how_to_get = "It is part of scikit-learn."

    def __init__(self, _data_root: Path | None = None) -> None:
        """It is the same wherever the data root is."""

    def files(self, split: str) -> Sequence[Path]:  # noqa: ARG002
        """None: they come with scikit-learn."""
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
