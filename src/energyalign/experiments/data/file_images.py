"""Images that stay encoded (JPEG, PNG, ...) until a worker needs them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol, Self

import numpy as np
import torch
from PIL import Image

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, reason_of
from energyalign.experiments.data.images import check_label_range
from energyalign.experiments.data.picture_size import open_picture
from energyalign.experiments.data.preparation import LargePreparation
from energyalign.experiments.data.rgb import UnknownRangeError, as_rgb
from energyalign.experiments.data.threads import map_in_threads


class Encoded(Protocol):
    """Where encoded images lie."""

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """What to call the image in a message."""

    def exists(self, index: int) -> bool:
        """Whether it is there at all."""

    def open(self, index: int) -> BinaryIO:
        """A stream of its bytes."""

    def mark(self, index: int) -> str:
        """What tells it from another image without reading it, wherever the set lies."""


@dataclass(frozen=True, eq=False)
class DiskFiles:
    """Files below a folder."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """The path as the user could open it."""
        return str(self.root / self.names[index])

    def exists(self, index: int) -> bool:
        """Whether it is a file."""
        return (self.root / self.names[index]).is_file()

    def open(self, index: int) -> BinaryIO:
        """The file, for reading."""
        return (self.root / self.names[index]).open("rb")

    def mark(self, index: int) -> str:
        """Size and path below the folder."""
        try:
            size = str((self.root / self.names[index]).stat().st_size)
        except OSError:
            size = "missing"  # which is for `verify_images` to report, with all others that are
        return f"{size} {self.names[index]}"


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images of any size, decoded when they are read, always as RGB; what is transparent in them is white.

    Parameters
    ----------
    name : str
        What messages call the set: the data set and its split.
    encoded : Encoded
    positions : array of shape (n_images,)
        Which of the encoded images these are.
    labels : array of shape (n_images,)
    class_names : tuple of str
    preparation : LargePreparation
    """

    name: str
    encoded: Encoded
    positions: Ints
    labels: Ints
    class_names: tuple[str, ...]
    preparation: LargePreparation

    def __post_init__(self) -> None:
        check_label_range(self.name, self.labels, len(self.positions), self.n_classes)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Ints | Sequence[int]) -> Self:
        """These images, in this order."""
        chosen = np.ascontiguousarray(indices, dtype=np.int64)
        return replace(self, positions=self.positions[chosen], labels=self.labels[chosen])

    def file_name(self, index: int) -> str:
        """The file of an image."""
        return self.encoded.name(int(self.positions[index]))

    def exists(self, index: int) -> bool:
        """Whether the file of an image is there."""
        return self.encoded.exists(int(self.positions[index]))

    def digest(self) -> str:
        """SHA-256 of the names and sizes of the files, in their order.

        Not of their contents: to read half a million photographs would take longer than an epoch of training.
        """
        total = hashlib.sha256()
        for mark in map_in_threads(lambda index: self.encoded.mark(int(self.positions[index])), len(self)):
            # Names on disk are bytes and need not be text; the only one that none of them has ends each.
            total.update(mark.encode(errors="surrogateescape") + b"\0")
        return total.hexdigest()

    def size(self, index: int) -> tuple[int, int]:
        """Width and height by the header of the file; (0, 0) if it has none that can be read."""
        try:
            with self.encoded.open(int(self.positions[index])) as stream, open_picture(stream) as image:
                return image.size
        except Exception:  # as below; what is wrong with it is for `picture` to say
            return 0, 0

    def picture(self, index: int) -> Image.Image:
        """One image, decoded whole."""
        try:
            with self.encoded.open(int(self.positions[index])) as stream, open_picture(stream) as image:
                return as_rgb(image)
        except UnknownRangeError as error:
            raise EnergyAlignError(
                f"the image {self.file_name(index)} {error}: convert it to 8 bits per channel, or take it out of the "
                "set."
            ) from error
        except Exception as error:
            # Pillow raises about ten types on damaged files; whichever it is, this image cannot be used.
            raise EnergyAlignError(
                f"cannot read the image {self.file_name(index)} ({reason_of(error)}). "
                "Get the file again, or take it out of the set."
            ) from error

    def read(self, index: int) -> torch.Tensor:
        """One image as uint8 of shape (3, height, width)."""
        pixels = np.array(self.picture(index))
        return torch.from_numpy(pixels).permute(2, 0, 1)
