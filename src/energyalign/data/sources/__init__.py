"""Sources of images: one file each, one line each in the registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError
from energyalign.data.sources.base import Source
from energyalign.data.sources.cifar import CIFAR10, CIFAR100, Cifar
from energyalign.data.sources.digits import Digits
from energyalign.data.sources.fashion import FashionMnist
from energyalign.data.sources.folder import Folder
from energyalign.data.sources.hf_parquet import HuggingFaceParquet
from energyalign.data.sources.imagenet import ImageNet
from energyalign.data.sources.lists import any_lists, imagenet_lt, inaturalist18

__all__ = ["DEFAULT_ROOT", "SOURCES", "Entry", "Source", "open_source"]

DEFAULT_ROOT = Path("data")


class Entry(NamedTuple):
    """A row of the registry."""

    open: Callable[[Path], Source]
    """From the data root, or from the path after the colon."""
    description: str
    reference: str


SOURCES: dict[str, Entry] = {
    "digits": Entry(lambda _: Digits(), "handwritten digits, 8 x 8, 10 classes, part of scikit-learn", "UCI, 1998"),
    "fashion-mnist": Entry(FashionMnist, "clothes, grey, 28 x 28, 10 classes", "Xiao et al. 2017"),
    "cifar10": Entry(lambda root: Cifar(CIFAR10, root), "colour images, 32 x 32, 10 classes", "Krizhevsky 2009"),
    "cifar100": Entry(lambda root: Cifar(CIFAR100, root), "colour images, 32 x 32, 100 classes", "Krizhevsky 2009"),
    "imagenet": Entry(ImageNet, "photographs, 1,000 classes", "Russakovsky et al. 2015"),
    "imagenet-lt": Entry(imagenet_lt, "photographs, 1,000 classes, long-tailed", "Liu et al. 2019"),
    "inaturalist18": Entry(inaturalist18, "photographs of 8,142 species, long-tailed", "Van Horn et al. 2018"),
    "folder:PATH": Entry(Folder, "your own images, a folder for each class", ""),
    "lists:PATH": Entry(any_lists, "images listed in train.txt and test.txt, lines of `path label`", ""),
    "parquet:PATH": Entry(HuggingFaceParquet, "train-*.parquet and test-*.parquet of the Hugging Face hub", ""),
}


def open_source(name: str, data_root: str | Path | None = None) -> Source:
    """The source of this name.

    Parameters
    ----------
    name : str
        A key of `SOURCES`, with a path in place of ``PATH``.
    data_root : path, optional
        The folder in which the files of named sets are; ``data`` unless given. A path in the name does not start
        there, but where every path starts.
    """
    prefix, colon, path = name.partition(":")
    key = f"{prefix}:PATH" if colon and path else name
    if key not in SOURCES or name.endswith(":PATH"):
        raise EnergyAlignError(f"unknown data set {name!r}: choose {', '.join(SOURCES)}.")
    place = Path(path) if colon else Path(DEFAULT_ROOT if data_root is None else data_root)
    return SOURCES[key].open(place.expanduser())
