"""Images named in text files of lines `path label`: ImageNet-LT, iNaturalist 2018, and any set of that form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from energyalign.core._io.strict_json import read_text
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.file_images import DiskFiles, FileImages, into_memory_if_small
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.preparation import IMAGENET, LargePreparation, Normalisation
from energyalign.experiments.data.sources import Source, first_with
from energyalign.experiments.data.verify import check_no_gap

_INATURALIST = LargePreparation(Normalisation((0.466, 0.471, 0.380), (0.195, 0.194, 0.192)))


class ListFiles(Source):
    """Images listed in one text file for each split, with paths relative to the folder of the lists.

    Such files have no class names, so the class numbers are used.
    """

    def __init__(
        self, name: str, root: Path, lists: Mapping[str, str], preparation: LargePreparation, how_to_get: str
    ) -> None:
        self.name = name
        self.how_to_get = how_to_get
        self._root = root
        self._lists = dict(lists)
        self._preparation = preparation

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._lists)

    def files(self, split: str) -> Sequence[Path]:
        """Return the list of the split; `verify_images` checks its images."""
        return [self._root / self._lists[split]]

    def _load(self, split: str) -> ImageSet:
        return self._read(split)

    def _read(self, split: str) -> FileImages:
        train_list, this_list = self.files("train")[0], self.files(split)[0]
        if not train_list.exists():
            raise EnergyAlignError(f"{self.name} needs {train_list}, which is missing. {self.how_to_get}")
        train = read_list(train_list)
        n_classes = check_no_gap(train[1], str(train_list))
        if n_classes < 2:
            raise EnergyAlignError(
                f"{train_list} must have images of at least 2 classes, got 1: add images of another class."
            )
        paths, labels = train if split == "train" else read_list(this_list)
        if len(labels) == 0 or labels.max() >= n_classes:
            raise EnergyAlignError(
                f"{this_list} must have images of the classes 0..{n_classes - 1} of {train_list}, and of no others."
            )
        names = tuple(map(str, range(n_classes)))
        files, positions = DiskFiles(self._root, paths), np.arange(len(paths))
        return FileImages(f"{self.name} {split}", files, positions, labels, names, self._preparation)


class OwnLists(ListFiles):
    """The user's own lists; as in a folder, images that all have one size up to 64 x 64 are kept in memory."""

    def _load(self, split: str) -> ImageSet:
        train = self._read("train")
        return into_memory_if_small(train if split == "train" else self._read(split), train)


def read_list(path: Path) -> tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Read the paths and labels of a list.

    Paths must stay below the folder of the list, which may come from anybody. Links may point elsewhere: the user made
    them.
    """
    paths, labels = [], []
    try:
        lines = read_text(path).splitlines()
    except (OSError, ValueError) as error:
        raise EnergyAlignError(f"cannot read the list {path} ({error}). Get it again.") from error
    for number, line in enumerate(lines, 1):
        words = line.rsplit(None, 1)  # a path may have spaces in it
        if len(words) != 2 or not (words[1].isascii() and words[1].isdigit()):
            raise EnergyAlignError(f"{path}, line {number}: expected a path and a class number, got {line[:80]!r}.")
        image, label = words[0].lstrip(), words[1]
        place = PurePosixPath(image)
        if place.is_absolute() or ".." in place.parts or "\0" in image:
            raise EnergyAlignError(f"{path}, line {number}: paths must be below the data root, got {image[:80]!r}.")
        paths.append(image)
        labels.append(int(label))
    try:
        return tuple(paths), np.array(labels, dtype=np.int64)
    except OverflowError as error:
        raise EnergyAlignError(f"{path}: labels must fit into 64 bits, got {max(labels)}.") from error


def imagenet_lt(data_root: Path) -> Source:
    """Return ImageNet-LT (Liu et al. 2019): 115,846 training, 20,000 validation, 50,000 test images, 1,000 classes."""
    lists = {split: f"ImageNet_LT_{split}.txt" for split in ("train", "val", "test")}
    return ListFiles(
        "imagenet-lt",
        first_with([data_root, data_root / "ImageNet_LT"], lists["train"]),
        lists,
        IMAGENET,
        "The lists ImageNet_LT_train.txt, ImageNet_LT_val.txt and ImageNet_LT_test.txt are published with the code of "
        "OLTR (Liu et al. 2019) and of Decoupling (facebookresearch/classifier-balancing on GitHub). The images come "
        "from ILSVRC 2012, on image-net.org after registration: unpack ILSVRC2012_img_train.tar and "
        "ILSVRC2012_img_val.tar so that the paths in the lists (train/..., val/...) start at the data root.",
    )


def inaturalist18(data_root: Path) -> Source:
    """Return iNaturalist 2018: 437,513 training images of 8,142 species; 24,426 validation images as the test split.

    The labels of the official test images are not public, so the literature reports accuracy on the validation images.
    """
    lists = {"train": "iNaturalist18_train.txt", "test": "iNaturalist18_val.txt"}
    return ListFiles(
        "inaturalist18",
        first_with([data_root, data_root / "iNaturalist18"], lists["train"]),
        lists,
        _INATURALIST,
        "The lists iNaturalist18_train.txt and iNaturalist18_val.txt are published with the code of Decoupling "
        "(facebookresearch/classifier-balancing on GitHub). The images come from the iNaturalist 2018 competition "
        "(visipedia/inat_comp on GitHub, folder 2018): unpack train_val2018.tar.gz so that the paths in the lists "
        "(train_val2018/...) start at the data root.",
    )


def any_lists(path: Path) -> Source:
    """Return the lists ``train.txt``, ``test.txt`` and, if it exists, ``val.txt`` of a folder."""
    splits = ("train", "val", "test") if (path / "val.txt").exists() else ("train", "test")
    return OwnLists(
        f"lists:{path}",
        path,
        {split: f"{split}.txt" for split in splits},
        IMAGENET,
        f"Write {path}/train.txt and {path}/test.txt, with one image a line: its path below {path}, a space, its class "
        "number from 0.",
    )
