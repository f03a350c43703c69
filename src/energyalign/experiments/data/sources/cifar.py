"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), without pickles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.data.download import Published, unpack
from energyalign.experiments.data.file_images import into_memory
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.preparation import Normalisation, SmallPreparation
from energyalign.experiments.data.sources import Source, first_with
from energyalign.experiments.data.sources.folder import class_folders_in, read_class_folders

_SITE = "https://www.cs.toronto.edu/~kriz"
_PIXELS = 3 * 32 * 32
# The statistics of CIFAR-10, which LDAM, BBN, De-confound and MiSLAS use for both sets.
PREPARATION = SmallPreparation(Normalisation((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)))

# Both sets number their classes in alphabetical order.
# fmt: off
_CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_CIFAR100_NAMES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish",
    "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange",
    "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk",
    "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
    "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
    "willow_tree", "wolf", "woman", "worm",
)
# fmt: on


@dataclass(frozen=True)
class CifarLayout:
    """Properties in which the two sets differ."""

    name: str
    folder: str
    files: dict[str, tuple[str, ...]]
    images_per_file: dict[str, int]
    label_bytes: int  # bytes before the pixels of an image, of which the last is the (fine) label
    class_names: tuple[str, ...]
    published: Published


CIFAR10 = CifarLayout(
    "cifar10", "cifar-10-batches-bin",
    {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)},
    {"train": 10_000, "test": 10_000}, 1, _CIFAR10_NAMES,
    Published(f"{_SITE}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
)  # fmt: skip
CIFAR100 = CifarLayout(
    "cifar100", "cifar-100-binary", {"train": ("train.bin",), "test": ("test.bin",)},
    {"train": 50_000, "test": 10_000}, 2, _CIFAR100_NAMES,
    Published(f"{_SITE}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
)  # fmt: skip


class Cifar(Source):
    """50,000 training and 10,000 test images in colour, 32 x 32, in 10 or 100 classes.

    The Python version, which torchvision loads, is a set of pickles, and loading a pickle may run any code. This source
    reads two other formats:

    - the official **binary version**, with the same order of images, so that seed 0 gives the long-tailed subset of
      LDAM and BBN;
    - **PNG folders** ``train/CLASS/*.png`` and ``test/CLASS/*.png``, in the order of the file names. The subset has the
      same counts, but other images than the published one.
    """

    def __init__(self, layout: CifarLayout, data_root: Path) -> None:
        self.name = layout.name
        self._layout = layout
        self._root = data_root
        self._binary = first_with([data_root / layout.folder, data_root], layout.files["train"][0])
        places = [data_root, data_root / layout.name]
        self._folders = next((place for place in places if self._has_classes(place)), data_root)
        self.how_to_get = (
            f"Get {layout.published.file_name} from its author's page, {_SITE}/cifar.html, and unpack it into "
            f"{data_root}, where it creates the folder {layout.folder} (the Python version is a set of pickles, which "
            f"are never loaded); or download {layout.published.url} with `energyalign data check ... --download`; or "
            f"put PNG files into {data_root}/train/CLASS and {data_root}/test/CLASS."
        )

    def files(self, split: str) -> Sequence[Path]:
        """Return the binary files, or the folder of PNG files if there are no binary ones."""
        if self._has_folders():
            return [self._folders / split]
        return [self._binary / name for name in self._layout.files[split]]

    def download(self) -> None:
        """Download the binary archive, check its MD5 sum, and unpack it."""
        archive = self._layout.published.fetch(self._root)
        names = [name for split in self._layout.files.values() for name in split]
        unpack(archive, [f"{self._layout.folder}/{name}" for name in names], self._root)

    def _has_folders(self) -> bool:
        return not (self._binary / self._layout.files["train"][0]).exists() and self._has_classes(self._folders)

    def _has_classes(self, place: Path) -> bool:
        """Return whether a class has a folder: a folder train alone may belong to ImageNet."""
        return any(name in self._layout.class_names for name in class_folders_in(place / "train"))

    def _load(self, split: str) -> ImageSet:
        return self._load_folders(split) if self._has_folders() else self._load_binary(split)

    def _load_binary(self, split: str) -> ImageSet:
        records = np.concatenate([self._records(path, split) for path in self.files(split)])
        before = self._layout.label_bytes
        pixels = torch.from_numpy(records[:, before:].reshape(-1, 3, 32, 32))
        labels = records[:, before - 1].astype(np.int64)
        return MemoryImages(f"{self.name} {split}", pixels, labels, self._layout.class_names, PREPARATION)

    def _records(self, path: Path, split: str) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
        length = self._layout.label_bytes + _PIXELS
        wanted = self._layout.images_per_file[split] * length
        size = path.stat().st_size
        if size != wanted:
            raise EnergyAlignError(
                f"{path} must have {wanted:,} bytes, got {size:,}: it is incomplete or another file. {self.how_to_get}"
            )
        return np.fromfile(path, dtype=np.uint8).reshape(-1, length)

    def _load_folders(self, split: str) -> ImageSet:
        folder = self._folders / split
        images = read_class_folders(folder, f"{self.name} {split}")
        odd = sorted(set(images.class_names) ^ set(self._layout.class_names))
        if odd:
            raise EnergyAlignError(
                f"{folder} must have a folder for each of the {len(self._layout.class_names)} classes of {self.name}; "
                f"missing or unknown: {some_of(odd)}."
            )
        return into_memory(images, (32, 32), PREPARATION)


cifar10 = partial(Cifar, CIFAR10)
cifar100 = partial(Cifar, CIFAR100)
