"""Fashion-MNIST (Xiao et al. 2017)."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from energyalign.core._io.regular import open_regular
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.download import Published
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.data.sources import Source
from energyalign.files.checks import refuse_bomb

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # Debian's package dataset-fashion-mnist
CLASS_NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_PREFIX = {"train": "train", "test": "t10k"}
_NORMALISE = Normalisation((0.2860,), (0.3530,))
_SITE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
PUBLISHED = (
    Published(f"{_SITE}/train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    Published(f"{_SITE}/train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
    Published(f"{_SITE}/t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
    Published(f"{_SITE}/t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
)


class FashionMnist(Source):
    """60,000 training and 10,000 test images of clothes, grey, 28 x 28, in 10 classes.

    The four ``*-ubyte`` files, gzipped or not, may be in the data root, in its sub-folders ``fashion-mnist`` and
    ``FashionMNIST/raw`` (as stored by torchvision), or where Debian's package installs them.
    """

    name = "fashion-mnist"
    how_to_get = (
        "Fashion-MNIST is published by Zalando Research (the repository zalandoresearch/fashion-mnist on GitHub): "
        "put its four files, train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and "
        "t10k-labels-idx1-ubyte.gz, into the data root; or install Debian's package dataset-fashion-mnist; or "
        f"download them from {_SITE} with `energyalign data check ... --download`."
    )

    def __init__(self, data_root: Path) -> None:
        self._target = data_root / "fashion-mnist"
        self._places = [data_root, self._target, data_root / "FashionMNIST" / "raw", DEBIAN_FOLDER]

    def files(self, split: str) -> Sequence[Path]:
        names = [f"{_PREFIX[split]}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
        return [self._find(name) for name in names]

    def download(self) -> None:
        """Download the four files and check their MD5 sums."""
        for published in PUBLISHED:
            published.fetch(self._target)

    def _find(self, name: str) -> Path:
        candidates = [place / f"{name}{ending}" for place in self._places for ending in (".gz", "")]
        return next((path for path in candidates if path.exists()), candidates[0])

    def _load(self, split: str) -> ImageSet:
        image_file, label_file = self.files(split)
        pixels, labels = read_idx(image_file, 3), read_idx(label_file, 1)
        if len(pixels) != len(labels):
            raise EnergyAlignError(
                f"{image_file} has {len(pixels):,} images, but {label_file} has {len(labels):,} labels. Get both again."
            )
        images, preparation = torch.from_numpy(pixels.copy())[:, None], SmallPreparation(_NORMALISE)
        return MemoryImages(f"{self.name} {split}", images, labels.astype(np.int64), CLASS_NAMES, preparation)


def read_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read the array of an idx file (a magic number, the sizes, then bytes), gzipped or not."""
    try:
        with open_regular(path) as file, gzip.open(file) if path.suffix == ".gz" else file as stream:
            header = stream.read(4 + 4 * n_dimensions)
            zeros, kind, stated, *sizes = struct.unpack(f">HBB{n_dimensions}I", header)
            if (zeros, kind, stated) != (0, 0x08, n_dimensions):
                raise ValueError("its magic number is wrong")
            size = math.prod(sizes)
            refuse_bomb(size, path.stat().st_size, "its content")
            content = stream.read(size + 1)  # one byte more, to see whether the file ends there
            if len(content) != size:
                raise ValueError(
                    f"its header says {size:,} bytes, but it has {'more' if len(content) > size else 'less'}"
                )
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise EnergyAlignError(
            f"{path} is not a complete idx file of {n_dimensions} dimensions ({error}). Get it again."
        ) from error
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)
