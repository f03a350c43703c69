"""Images that stay encoded (JPEG, PNG, ...) until a worker needs them, or until all are decoded into memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import torch
from PIL import Image

from energyalign.core._io.regular import open_regular
from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError, reason_of, some_of
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.pictures import UnknownRangeError, as_rgb, open_picture
from energyalign.experiments.data.preparation import LargePreparation, SmallPreparation

MAX_FILES_NAMED = 50
MAX_SIDE_IN_MEMORY = 64
_CHUNK = 64  # a future for each of half a million files would cost more memory than the files' names

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many images of how many have been decoded."""

_Result = TypeVar("_Result")


class Encoded(Protocol):
    """Where encoded images lie."""

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

    def name(self, index: int) -> str:
        """The path as the user could open it."""
        return str(self.root / self.names[index])

    def exists(self, index: int) -> bool:
        """Whether it is a file."""
        return (self.root / self.names[index]).is_file()

    def open(self, index: int) -> BinaryIO:
        """The file, for reading."""
        return open_regular(self.root / self.names[index])

    def mark(self, index: int) -> str:
        """Size and path below the folder."""
        try:
            size = str((self.root / self.names[index]).stat().st_size)
        except OSError:
            size = "missing"  # which is for `verify_images` to report, with all others that are
        return f"{size} {self.names[index]}"


@dataclass(frozen=True, eq=False)
class FileImages(ImageSet):
    """Images of any size, decoded when they are read, always as RGB; what is transparent in them is white.

    `positions` says which of the encoded images these are.
    """

    name: str
    encoded: Encoded
    positions: Ints
    labels: Ints
    class_names: tuple[str, ...]
    preparation: LargePreparation

    def __post_init__(self) -> None:
        self._check_labels(len(self.positions))

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
            name, remedy = self.file_name(index), "convert it to 8 bits per channel, or take it out of the set"
            raise EnergyAlignError(f"the image {name} {error}: {remedy}.") from error
        except Exception as error:
            # Pillow raises about ten types on damaged files; whichever it is, this image cannot be used.
            name, remedy = self.file_name(index), "Get the file again, or take it out of the set"
            raise EnergyAlignError(f"cannot read the image {name} ({reason_of(error)}). {remedy}.") from error

    def read(self, index: int) -> torch.Tensor:
        """One image as uint8 of shape (3, height, width)."""
        return torch.from_numpy(np.array(self.picture(index))).permute(2, 0, 1)


class BadFilesError(EnergyAlignError):
    """Files of a set that are missing or cannot be decoded; the message names up to 50, or says where to see all."""

    def __init__(self, images: FileImages, problem: str, files: Iterable[str], remedy: str) -> None:
        self.files = tuple(files)
        named = ", ".join(self.files)
        if len(self.files) > MAX_FILES_NAMED:
            # A set is named after its source and its split.
            command = f"energyalign data check {images.name.rpartition(' ')[0] or images.name}"
            named = f"{some_of(self.files)} (`{command}`, with the --data-root of this run, lists all)"
        super().__init__(
            f"{images.name}: {len(self.files):,} of {len(images):,} files {problem}: {named}. {remedy}",
        )


def decode_all(
    images: FileImages, use: Callable[[int, Image.Image], None], *, progress: Progress | None = None
) -> None:
    """Hand every decoded image to `use`, from several threads; then raise if any could not be decoded."""

    def problem_with(index: int) -> str | None:
        try:
            picture = images.picture(index)
        except EnergyAlignError as error:
            return str(error)
        use(index, picture)
        return None

    bad, reason = [], ""
    for index, problem in enumerate(map_in_threads(problem_with, len(images))):
        if problem is not None:
            bad.append(images.file_name(index))
            reason = reason or problem
        if progress is not None:
            progress(index + 1, len(images))
    if bad:
        raise BadFilesError(images, "are no images that can be decoded", bad, f"The first of them: {reason}")


def into_memory(images: FileImages, size: tuple[int, int], preparation: SmallPreparation) -> MemoryImages:
    """All images decoded; they must all have this width and height."""
    width, height = size
    pixels = np.empty((len(images), height, width, 3), dtype=np.uint8)

    def fill(index: int, picture: Image.Image) -> None:
        if picture.size != size:
            raise EnergyAlignError(
                f"{images.name}: {images.file_name(index)} has {picture.width} x {picture.height} pixels, but the "
                f"(other) training images have {width} x {height}. Get the set again, or resize its images."
            )
        pixels[index] = np.asarray(picture)

    decode_all(images, fill)
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()
    return MemoryImages(images.name, tensor, images.labels, images.class_names, preparation)


def into_memory_if_small(images: FileImages, train: FileImages) -> ImageSet:
    """The images in memory if the training images all have one size of at most 64 x 64; otherwise as they are.

    Crops out of the padded image for the small, random resized crops for the large: that is a choice between two
    recipes. So it is made for all splits alike, by the sizes alone and never by how much memory there is.
    """
    size = train.size(0)
    if not 0 < max(size) <= MAX_SIDE_IN_MEMORY:
        return images
    with closing(map_in_threads(train.size, len(train))) as sizes:
        if any(other != size for other in sizes):
            return images
    return into_memory(images, size, SmallPreparation(images.preparation.normalise))


def map_in_threads(function: Callable[[int], _Result], n: int) -> Generator[_Result, None, None]:
    """function(0), ..., function(n - 1), in this order; files and Pillow's decoders let other threads run meanwhile."""

    def run(first: int) -> list[_Result]:
        return [function(index) for index in range(first, min(first + _CHUNK, n))]

    pool = ThreadPoolExecutor(max_workers=min(32, os.cpu_count() or 1))
    try:
        for results in pool.map(run, range(0, n, _CHUNK)):
            yield from results
    finally:
        # Whoever stops early, by an error or by having seen enough, does not wait for the rest.
        pool.shutdown(cancel_futures=True)
