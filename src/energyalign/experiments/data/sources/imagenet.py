"""ImageNet of the 2012 challenge (ILSVRC 2012), or any part of its classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from energyalign.core.errors import EnergyAlignError, count_of, some_of
from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.preparation import IMAGENET
from energyalign.experiments.data.sources import Source, first_with
from energyalign.experiments.data.sources.folder import EXTENSIONS, class_folders_in, read_class_folders
from energyalign.experiments.data.sources.lists import read_list

_FOLDERS = ("imagenet", "ImageNet", "ILSVRC2012")
_LISTS = ("val.txt", "ILSVRC2012_val.txt")
_WORDNET_ID = re.compile("n[0-9]{8}")


class ImageNet(Source):
    """1,281,167 training images of 1,000 classes; the 50,000 validation images are the test split.

    The labels of the official test images are not public, so the literature reports accuracy on the validation images.
    Below the data root, or a folder ``imagenet``, ``ImageNet`` or ``ILSVRC2012`` in it, are

    - ``train/WNID/*.JPEG``, a folder for each class, named by its WordNet id;
    - ``val/WNID/*.JPEG``, or the unpacked archive, ``val/ILSVRC2012_val_00000001.JPEG`` and so on, with a list
      ``val.txt`` or ``ILSVRC2012_val.txt`` beside ``val`` of lines `file label`, such as Caffe's.

    Classes are numbered in the alphabetical order of the WordNet ids in ``train``, which for all 1,000 are the numbers
    that torchvision and Caffe's list use. A part of the classes is enough, such as the 100 of ImageNet100; the labels
    of a list then number that part. Images are never kept in memory, even if they are small, because the recipe is for
    photographs.

    References
    ----------
    Russakovsky, Deng, Su, Krause, Satheesh, Ma, Huang, Karpathy, Khosla, Bernstein, Berg, Fei-Fei 2015.
    ImageNet Large Scale Visual Recognition Challenge.
    """

    def __init__(self, data_root: Path) -> None:
        self.name = "imagenet"
        places = [data_root, *(data_root / folder for folder in _FOLDERS)]
        # Look for class folders: CIFAR as PNG files has a folder train too.
        known = [place for place in places if any(map(_WORDNET_ID.fullmatch, class_folders_in(place / "train")))]
        root = first_with(known or places, "train")
        self._train, self._val = root / "train", root / "val"
        lists = [root / name for name in _LISTS]
        self._list = next((path for path in lists if path.exists()), lists[0])
        self.how_to_get = (
            "Get ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar from image-net.org, after registration. Unpack "
            f"the archive of every class in the first into a folder {self._train}/WNID that is named by its WordNet id "
            f"(n01440764 is the first), and the second into {self._val}. Then sort the images in it into folders "
            f"{self._val}/WNID too; or leave them there and write {lists[0]}, with one image a line: the name of the "
            "file, a space, the number of its class, from 0 in alphabetical order of the WordNet ids (Caffe's val.txt "
            "is such a list of all 1,000 classes)."
        )

    def files(self, split: str) -> Sequence[Path]:
        """Return the training folder, which numbers the classes; for the test split also ``val`` and its list."""
        if split == "train":
            return [self._train]
        flat = self._val.is_dir() and not class_folders_in(self._val)
        return [self._train, self._val, *([self._list] if flat else [])]

    def _load(self, split: str) -> ImageSet:
        name, class_names = f"{self.name} {split}", self._class_names()
        if split == "train":
            return read_class_folders(self._train, name)
        if self._list in self.files(split):
            return self._read_flat(name, class_names)
        self._refuse_loose_images()
        return read_class_folders(self._val, name, class_names)

    def _class_names(self) -> tuple[str, ...]:
        """Return the names of the class folders, without reading their million images."""
        found = class_folders_in(self._train)
        odd = [name for name in found if not _WORDNET_ID.fullmatch(name)]
        if odd:
            raise EnergyAlignError(
                f"{self.name}: folders in {self._train} must be named by WordNet ids such as n01440764, got "
                f"{some_of(odd)}. Move them elsewhere, or use folder:PATH for images of your own."
            )
        if len(found) < 2:
            raise EnergyAlignError(
                f"{self.name}: {self._train} must have at least 2 class folders, got {len(found)}. {self.how_to_get}"
            )
        return found

    def _read_flat(self, name: str, class_names: tuple[str, ...]) -> FileImages:
        paths, labels = read_list(self._list)
        if len(labels) == 0:
            raise EnergyAlignError(f"{name}: the list {self._list} has no lines. {self.how_to_get}")
        if labels.max() >= len(class_names):
            # Probably a list of all 1,000 classes beside a part of them, so its smaller numbers would be wrong too.
            raise EnergyAlignError(
                f"{name}: {self._list} has the label {labels.max()}, but {self._train} has {len(class_names):,} "
                f"classes. List the images of these alone, and number them 0..{len(class_names) - 1} in alphabetical "
                f"order; or sort these images into folders {self._val}/WNID."
            )
        return FileImages(name, DiskFiles(self._val, paths), np.arange(len(paths)), labels, class_names, IMAGENET)

    def _refuse_loose_images(self) -> None:
        """Raise if images are beside the class folders: a script that sorts them was stopped half-way."""
        names = [path.name for path in self._val.iterdir() if path.is_file()]
        loose = [name for name in names if name[0] != "." and name.lower().endswith(EXTENSIONS)]
        if loose:
            raise EnergyAlignError(
                f"{self.name}: {self._val} has {count_of(len(loose), 'image')} beside its class folders, such as "
                f"{min(loose)}. Sort them into the folders of their classes too."
            )
