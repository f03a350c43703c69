"""Tiny image sets, in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation

torch.set_num_threads(1)


@pytest.fixture
def write_image() -> Callable[..., Path]:
    """Write one image in a random colour, in the format of the extension, with its folders."""

    def write(path: Path, *, seed: int = 0, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
        pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        return path

    return write


@pytest.fixture
def small() -> Callable[..., MemoryImages]:
    """Make a set of random images of 8 x 6 pixels in 3 classes."""

    def make(n: int = 23, *, channels: int = 3, padding: int = 2, flip: bool = True) -> MemoryImages:
        rng = np.random.default_rng(n)
        images = torch.from_numpy(rng.integers(0, 256, (n, channels, 8, 6), dtype=np.uint8))
        preparation = SmallPreparation(
            Normalisation((0.5, 0.4, 0.3)[:channels], (0.2, 0.25, 0.3)[:channels]), padding, flip
        )
        return MemoryImages("small train", images, np.arange(n) % 3, ("a", "b", "c"), preparation)

    return make
