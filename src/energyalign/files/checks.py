"""Checks that all formats share, and the conversion of other libraries' errors into `EnergyAlignError`."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from energyalign.core._io.regular import open_regular
from energyalign.core.errors import CannotGoOn, EnergyAlignError, reason_of, some_of

BLOCK_BYTES = 16 * 2**20
# A small file may unpack to gigabytes: limit what is read at once to this multiple of its size, plus a constant.
MAX_UNPACKED_TIMES, MAX_UNPACKED_BESIDES = 4, 32 * 2**20


@contextlib.contextmanager
def reading(name: str, kind: str) -> Iterator[None]:
    """Turn any error while file `name` is read as `kind` into an `EnergyAlignError`."""
    try:
        yield
    except (EnergyAlignError, MemoryError):  # a valid file may be too large
        raise
    except Exception as error:
        # NumPy, zipfile, zlib, csv, json and pyarrow raise about twenty types on hostile bytes, and their next releases
        # may add more. The cause stays chained.
        if isinstance(error, OSError) and error.strerror:
            raise EnergyAlignError(
                f"cannot read {name}: {error.strerror}. Check the path and its permissions."
            ) from error
        raise EnergyAlignError(
            f"{name} is damaged or not {kind} ({reason_of(error)}). Write it again, or correct its extension."
        ) from error


class InputFile:
    """A regular, non-empty file that must not change between its first and its last read.

    It can be sent to another process.

    Parameters
    ----------
    path : Path
    name : str
        Name of the file in messages.
    kind : str
        Expected content, such as ``a .npy array``.
    """

    def __init__(self, path: Path, name: str, kind: str) -> None:
        self.path, self.name, self.kind = path, name, kind
        with reading(name, "a file"):
            try:
                with open_regular(path) as stream:
                    status = os.fstat(stream.fileno())
            except IsADirectoryError as error:
                raise EnergyAlignError(f"{name} is a directory: give the files in it.") from error
            except ValueError as error:  # a pipe, for example: logits are read several times
                raise EnergyAlignError(f"{name} cannot be read: {error}.") from error
            if status.st_size == 0:
                raise EnergyAlignError(f"{name} is empty (0 bytes): write the file again.")
            self.size, self._state = status.st_size, _state(status)

    @contextlib.contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """Open the file; raises like `reading`."""
        with self.reading(), open_regular(self.path) as stream:
            self._compare(os.fstat(stream.fileno()))  # the path may have pointed to another file for a moment
            yield stream

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Raise `EnergyAlignError` for any error inside, and if the file has changed since it was first opened.

        A change is detected by size, modification time and inode. A writer that resets the time, or writes through
        a memory map, goes unnoticed.
        """
        with reading(self.name, self.kind):
            self.refuse_changed()
            try:
                yield
            except Exception:
                self.refuse_changed()  # this error says more than the reader's error on a half-written file
                raise
            self.refuse_changed()

    def refuse_changed(self) -> None:
        """Raise if the file has changed since it was first opened."""
        self._compare(self.path.stat())

    def _compare(self, status: os.stat_result) -> None:
        if _state(status) != self._state:
            raise CannotGoOn(f"{self.name} changed while it was read: stop whatever writes to it, and start again.")


def _state(status: os.stat_result) -> tuple[int, ...]:
    # Without st_ctime, which changes with permissions and with hard links, as some backups make them.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def require_extension(path: Path, known: Collection[str]) -> str:
    """Return the extension of `path` in lower case; raise if it is not one of `known`."""
    extension = path.suffix.lower()
    if extension not in known:
        raise EnergyAlignError(
            f"{path} must have the extension {' or '.join(known)}, got {extension or 'no extension'}."
        )
    return extension


def require_logits(shape: Sequence[int], dtype: np.dtype[Any], name: str, *, any_head: bool = False) -> None:
    """Check the shape and dtype of logits: (n_samples, n_classes), floating, at least 2 classes.

    `any_head` also allows one logit, tokens and pixels.
    """
    refuse_objects(dtype, name)
    if len(shape) != 2 and not (any_head and shape):
        raise EnergyAlignError(f"{name} must have the shape (n_samples, n_classes) of logits, got {tuple(shape)}.")
    if dtype.kind != "f":
        raise EnergyAlignError(
            f"{name} must hold floating-point logits, got {dtype}: save the scores before argmax or rounding."
        )
    if shape[0] < 1:
        raise EnergyAlignError(f"{name} has no rows: leave it out, or write it again.")
    if any_head and (len(shape) != 2 or shape[1] == 1):
        if 0 in shape:
            raise EnergyAlignError(f"{name} has no logits (shape {tuple(shape)}): write it again.")
        return
    if shape[1] < 2:
        raise EnergyAlignError(f"{name} must have at least 2 columns, one per class, got {shape[1]}.")


def refuse_objects(dtype: np.dtype[Any], name: str) -> None:
    """Refuse Python objects: unpickling them can run any code."""
    if dtype.hasobject:
        raise EnergyAlignError(
            f"{name} holds pickled Python objects, which are never loaded: save a plain array of numbers."
        )


def max_unpacked(size: int) -> int:
    """Return the maximum number of bytes to unpack at once from a file of `size` bytes."""
    return MAX_UNPACKED_TIMES * size + MAX_UNPACKED_BESIDES


def refuse_bomb(unpacked: int, size: int, name: str) -> None:
    """Refuse to unpack too many bytes at once from a file of `size` bytes."""
    limit = max_unpacked(size)
    if unpacked > limit:
        raise EnergyAlignError(
            f"{name} unpacks to {unpacked:,} bytes, but the limit for a file of {size:,} bytes is {limit:,}: write it "
            "again without compression."
        )


def require_distinct(names: Sequence[str], name: str) -> None:
    """Refuse empty and repeated class names."""
    if "" in names:
        raise EnergyAlignError(
            f"{name}: class or column {names.index('') + 1} has no name. Name it; if it is a pandas index, write the "
            "file with index=False."
        )
    repeated = [one for one, times in Counter(names).items() if times > 1]
    if repeated:
        raise EnergyAlignError(f"{name} has duplicate class names: {some_of(repeated)}. Rename them.")


def label_column(names: Sequence[str], name: str) -> str | None:
    """Return which column or array of a file holds labels; None if there is none."""
    present = [one for one in ("label", "labels") if one in names]
    if len(present) > 1:
        raise EnergyAlignError(f"{name} has both `label` and `labels`: keep one of them.")
    return present[0] if present else None


def is_number(cell: str) -> bool:
    """Return whether a cell is a number; nan and inf count as numbers."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def rows_per_block(n_classes: int, dtype: np.dtype[Any]) -> int:
    """Return the number of rows in a block of at most `BLOCK_BYTES`, and at least 1."""
    return max(1, BLOCK_BYTES // (n_classes * dtype.itemsize))


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in native byte order."""
    return dtype.newbyteorder("=")
