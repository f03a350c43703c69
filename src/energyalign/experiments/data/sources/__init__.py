"""Sources of images: one file each, one line each in the registry, loaded when they are used."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.experiments.data.sources.base import Source

DEFAULT_ROOT = Path("data")


class SourceEntry(NamedTuple):
    """A row of the registry.

    Attributes
    ----------
    where : str
        ``module:name`` below this package: a callable from the data root, or from the path after the colon.
    description, reference : str
    """

    where: str
    description: str
    reference: str


SOURCES: dict[str, SourceEntry] = {
    "digits": SourceEntry("digits:digits", "handwritten digits, 8 x 8, 10 classes, part of scikit-learn", "UCI, 1998"),
    "fashion-mnist": SourceEntry("fashion:FashionMnist", "clothes, grey, 28 x 28, 10 classes", "Xiao et al. 2017"),
    "cifar10": SourceEntry("cifar:cifar10", "colour images, 32 x 32, 10 classes", "Krizhevsky 2009"),
    "cifar100": SourceEntry("cifar:cifar100", "colour images, 32 x 32, 100 classes", "Krizhevsky 2009"),
    "imagenet": SourceEntry("imagenet:ImageNet", "photographs, 1,000 classes", "Russakovsky et al. 2015"),
    "imagenet-lt": SourceEntry("lists:imagenet_lt", "photographs, 1,000 classes, long-tailed", "Liu et al. 2019"),
    "inaturalist18": SourceEntry(
        "lists:inaturalist18", "photographs of 8,142 species, long-tailed", "Van Horn et al. 2018"
    ),
    "folder:PATH": SourceEntry("folder:Folder", "your own images, a folder for each class", ""),
    "lists:PATH": SourceEntry("lists:any_lists", "images listed in train.txt and test.txt, lines of `path label`", ""),
    "parquet:PATH": SourceEntry(
        "hf_parquet:HuggingFaceParquet", "train-*.parquet and test-*.parquet of the Hugging Face hub", ""
    ),
}


def check_source(name: str) -> None:
    """Refuse a data set that there is not."""
    if _key(name) not in SOURCES or name.endswith(":PATH"):
        raise EnergyAlignError(f"unknown data set {name!r}: choose {', '.join(SOURCES)}.")


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
    check_source(name)
    _, colon, path = name.partition(":")
    place = Path(path) if colon else Path(DEFAULT_ROOT if data_root is None else data_root)
    source: Source = pkgutil.resolve_name(f"{__name__}.{SOURCES[_key(name)].where}")(place.expanduser())
    return source


def _key(name: str) -> str:
    prefix, colon, path = name.partition(":")
    return f"{prefix}:PATH" if colon and path else name
