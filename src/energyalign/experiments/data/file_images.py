"""Encoded images (JPEG, PNG, ...), decoded when they are read, or all at once into memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
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
from energyalign.experiments.data.pictures import UnknownRangeError, as_rgb, open_picture, read_pixels
from energyalign.experiments.data.preparation import LargePreparation, SmallPreparation

MAX_FILES_NAMED = 50
MAX_SIDE_IN_MEMORY = 64
_CHUNK = 64  # files per future: half a million futures would take more memory than the file names

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of images decoded so far and the number of all."""

_Result = TypeVar("_Result")


class Encoded(Protocol):
    """A container of encoded images."""

    def name(self, index: int) -> str:
        """Return the name of an image for messages."""

    def exists(self, index: int) -> bool:
        """Return whether an image exists."""

    def open(self, index: int) -> BinaryIO:
        """Open the bytes of an image for reading."""

    def mark(self, index: int) -> str:
        """Return text that identifies an image without reading it, wherever the set is stored."""


@dataclass(frozen=True, eq=False)
class DiskFiles:
    """Files below a folder."""

    root: Path
    names: tuple[str, ...]

    def name(self, index: int) -> str:
        return str(self.root / self.names[index])

    def exists(self, index: int) -> bool:
        return (self.root / self.names[index]).is_file()

    def open(self, index: int) -> BinaryIO:
        return open_regular(self.root / self.names[index])

    def mark(self, index: int) -> str:
        """Return the size and the path below the folder."""
        try:
            size = str((self.root / self.names[index]).stat().st_size)
        except OSError:
            size = "missing"  # `verify_images` reports all missing files at once
        return f"{size} {self.names[index]}"


@dataclass(frozen=True, eq=False)
class FileImages(ImageSet):
    """Images of any size, decoded as RGB when they are read, with transparency on white.

    `positions` are the indices of these images in `encoded`.
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
        chosen = np.ascontiguousarray(indices, dtype=np.int64)
        return replace(self, positions=self.positions[chosen], labels=self.labels[chosen])

    def file_name(self, index: int) -> str:
        """Return the name of the file of an image."""
        return self.encoded.name(int(self.positions[index]))

    def exists(self, index: int) -> bool:
        """Return whether the file of an image exists."""
        return self.encoded.exists(int(self.positions[index]))

    def digest(self) -> str:
        """Return the SHA-256 of the names and sizes of the files, in their order.

        Hashing the contents of half a million photographs would take longer than an epoch of training.
        """
        total = hashlib.sha256()
        for mark in map_in_threads(lambda index: self.encoded.mark(int(self.positions[index])), len(self)):
            # File names are bytes, not always valid text. A NUL byte, which no name contains, separates them.
            total.update(mark.encode(errors="surrogateescape") + b"\0")
        return total.hexdigest()

    def size(self, index: int) -> tuple[int, int]:
        """Return width and height from the header of the file; (0, 0) if it cannot be read."""
        try:
            with open_picture(self._content(index)) as image:
                return image.size
        except Exception:  # Pillow raises many types; `picture` reports the error
            return 0, 0

    def picture(self, index: int) -> Image.Image:
        """Decode one image with Pillow."""
        with self._naming(index), open_picture(self._content(index)) as image:
            return as_rgb(image)

    def read(self, index: int) -> torch.Tensor:
        with self._naming(index):
            return read_pixels(self._content(index))

    def _content(self, index: int) -> bytes:
        with self.encoded.open(int(self.positions[index])) as stream:
            return stream.read()

    @contextmanager
    def _naming(self, index: int) -> Iterator[None]:
        """Name the file in errors that the block raises."""
        try:
            yield
        except UnknownRangeError as error:
            name, remedy = self.file_name(index), "convert it to 8 bits per channel, or take it out of the set"
            raise EnergyAlignError(f"the image {name} {error}: {remedy}.") from error
        except Exception as error:
            # Decoders raise about ten types on damaged files.
            name, remedy = self.file_name(index), "Get the file again, or take it out of the set"
            raise EnergyAlignError(f"cannot read the image {name} ({reason_of(error)}). {remedy}.") from error


class BadFilesError(EnergyAlignError):
    """Files of a set are missing or cannot be decoded. The message names up to 50, or how to list all."""

    def __init__(self, images: FileImages, problem: str, files: Iterable[str], remedy: str) -> None:
        self.files = tuple(files)
        named = ", ".join(self.files)
        if len(self.files) > MAX_FILES_NAMED:
            # The name of a set is the name of its source, followed by the name of its split.
            command = f"energyalign data check {images.name.rpartition(' ')[0] or images.name}"
            named = f"{some_of(self.files)} (`{command}`, with the --data-root of this run, lists all)"
        super().__init__(
            f"{images.name}: {len(self.files):,} of {len(images):,} files {problem}: {named}. {remedy}",
        )


def decode_all(
    images: FileImages, use: Callable[[int, Image.Image], None], *, progress: Progress | None = None
) -> None:
    """Call `use` with every decoded image, from several threads; then raise if some could not be decoded."""

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
        raise BadFilesError(images, "cannot be decoded", bad, f"The first of them: {reason}")


def into_memory(images: FileImages, size: tuple[int, int], preparation: SmallPreparation) -> MemoryImages:
    """Decode all images into memory; all must have this width and height."""
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
    """Decode images into memory if the training images all have one size of at most 64 x 64; else return them as is.

    The choice also decides the augmentation: padded crops for small images, random resized crops for large ones. So it
    depends on the sizes of the training images alone, never on the available memory.
    """
    size = train.size(0)
    if not 0 < max(size) <= MAX_SIDE_IN_MEMORY:
        return images
    with closing(map_in_threads(train.size, len(train))) as sizes:
        if any(other != size for other in sizes):
            return images
    return into_memory(images, size, SmallPreparation(images.preparation.normalise))


def map_in_threads(function: Callable[[int], _Result], n: int) -> Generator[_Result, None, None]:
    """Yield function(0), ..., function(n - 1), in this order, computed in threads."""

    def run(first: int) -> list[_Result]:
        return [function(index) for index in range(first, min(first + _CHUNK, n))]

    pool = ThreadPoolExecutor(max_workers=min(32, os.cpu_count() or 1))
    try:
        for results in pool.map(run, range(0, n, _CHUNK)):
            yield from results
    finally:
        # If the caller stops early, or on an error, do not wait for the rest.
        pool.shutdown(cancel_futures=True)
