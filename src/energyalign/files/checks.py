"""What every format checks alike, and the one place where foreign errors become ours."""

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
# A small file may unpack to gigabytes: what is read at once is limited to this multiple of its size, plus a constant.
MAX_UNPACKED_TIMES, MAX_UNPACKED_BESIDES = 4, 32 * 2**20


@contextlib.contextmanager
def reading(name: str, kind: str) -> Iterator[None]:
    """Turn whatever goes wrong while file `name` is read as `kind` into an `EnergyAlignError`."""
    try:
        yield
    except (EnergyAlignError, MemoryError):  # a file may be whole, and too large
        raise
    except Exception as error:
        # NumPy, zipfile, zlib, csv, json and pyarrow raise some twenty types on hostile bytes, and a list of
        # them would be out of date with the next release of any of these. The cause stays chained.
        if isinstance(error, OSError) and error.strerror:
            raise EnergyAlignError(
                f"cannot read {name}: {error.strerror}. Check the path and its permissions."
            ) from error
        raise EnergyAlignError(
            f"{name} is damaged or not {kind} ({reason_of(error)}). Write it again, or give it its right extension."
        ) from error


class InputFile:
    """A readable regular file with something in it, which must stay as it is from now on to the last time it is read.

    It may be sent to another process.

    Parameters
    ----------
    path : Path
    name : str
        What messages call it.
    kind : str
        What it should be, such as ``a .npy array``.
    """

    def __init__(self, path: Path, name: str, kind: str) -> None:
        self.path, self.name, self.kind = path, name, kind
        with reading(name, "a file"):
            try:
                with open_regular(path) as stream:
                    status = os.fstat(stream.fileno())
            except IsADirectoryError as error:
                raise EnergyAlignError(f"{name} is a directory: give the files in it by name.") from error
            except ValueError as error:  # logits are read several times; a pipe can be read once
                raise EnergyAlignError(f"{name} cannot be read: {error}.") from error
            if status.st_size == 0:
                raise EnergyAlignError(f"{name} is empty (0 bytes): write the file again.")
            self.size, self._state = status.st_size, _state(status)

    @contextlib.contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """The file from its beginning, to be read inside; errors are as of `reading`."""
        with self.reading(), open_regular(self.path) as stream:
            self._compare(os.fstat(stream.fileno()))  # its name may have been that of another file for a moment
            yield stream

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read it inside, by its path. All that goes wrong, and a change since it was opened, is an `EnergyAlignError`.

        Its size, the time of its last change and which file has its name tell a change: not one whose writer sets the
        time back, or writes into a map of the file.
        """
        with reading(self.name, self.kind):
            self.refuse_changed()
            try:
                yield
            except Exception:
                self.refuse_changed()  # which tells more than what a half written file made of its reader
                raise
            self.refuse_changed()

    def refuse_changed(self) -> None:
        """Raise if it is not as it was when it was opened."""
        self._compare(self.path.stat())

    def _compare(self, status: os.stat_result) -> None:
        if _state(status) != self._state:
            raise CannotGoOn(
                f"{self.name} changed while it was read: let nothing write to it meanwhile, and start again."
            )


def _state(status: os.stat_result) -> tuple[int, ...]:
    # Without the time of the inode's change: a backup by hard links, or other permissions, would be a change.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def require_extension(path: Path, known: Collection[str]) -> str:
    """The extension of `path` in lower case, if it is one of `known`."""
    extension = path.suffix.lower()
    if extension not in known:
        raise EnergyAlignError(
            f"{path} has the extension {extension or '(none)'}, which is not one of {', '.join(known)}: "
            "save it in one of these formats and name it so."
        )
    return extension


def require_logits(shape: Sequence[int], dtype: np.dtype[Any], name: str, *, any_head: bool = False) -> None:
    """Check that shape and dtype are those of logits: floating, (n_samples, n_classes), 2 classes or more.

    With `any_head` also one logit, tokens and pixels.
    """
    refuse_objects(dtype, name)
    if len(shape) != 2 and not (any_head and shape):
        raise EnergyAlignError(
            f"{name} has shape {tuple(shape)}, but logits have two dimensions, (n_samples, n_classes)."
        )
    if dtype.kind != "f":
        raise EnergyAlignError(
            f"{name} holds {dtype}, but logits are floating point: save the scores before argmax or rounding."
        )
    if shape[0] < 1:
        raise EnergyAlignError(f"{name} has no rows: leave it out, or write it again with samples in it.")
    if any_head and (len(shape) != 2 or shape[1] == 1):
        if 0 in shape:
            raise EnergyAlignError(f"{name} has shape {tuple(shape)}, without a logit: write it again.")
        return
    if shape[1] < 2:
        raise EnergyAlignError(f"{name} has {shape[1]} class columns; at least 2 are needed, one for each class.")


def refuse_objects(dtype: np.dtype[Any], name: str) -> None:
    """Refuse Python objects: to load them is to run whatever code the file asks for."""
    if dtype.hasobject:
        raise EnergyAlignError(
            f"{name} holds pickled Python objects, which are never loaded: save a plain array of numbers."
        )


def max_unpacked(size: int) -> int:
    """Return how many bytes may be unpacked at once from a file of `size` bytes."""
    return MAX_UNPACKED_TIMES * size + MAX_UNPACKED_BESIDES


def refuse_bomb(unpacked: int, size: int, name: str) -> None:
    """Refuse to unpack that many bytes at once out of a file of `size` bytes."""
    limit = max_unpacked(size)
    if unpacked > limit:
        raise EnergyAlignError(
            f"{name} would take {unpacked:,} bytes at once, and at most {limit:,} are unpacked from a file of "
            f"{size:,}: write it again without compression."
        )


def require_distinct(names: Sequence[str], name: str) -> None:
    """Refuse empty and repeated class names."""
    if "" in names:
        raise EnergyAlignError(
            f"{name}: class or column {names.index('') + 1} has no name. Name it; or, if it is a saved "
            "pandas index, write the file with index=False."
        )
    repeated = [one for one, times in Counter(names).items() if times > 1]
    if repeated:
        raise EnergyAlignError(f"{name} names these classes more than once: {some_of(repeated)}. Rename them.")


def label_column(names: Sequence[str], name: str) -> str | None:
    """Which of the columns or arrays of a file holds labels, if one does."""
    found = [one for one in ("label", "labels") if one in names]
    if len(found) > 1:
        raise EnergyAlignError(f"{name} has both `label` and `labels`: keep the one that holds the labels.")
    return found[0] if found else None


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number (nan and inf are numbers too)."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def rows_per_block(n_classes: int, dtype: np.dtype[Any]) -> int:
    """How many rows make a block of at most `BLOCK_BYTES`; one, if a single row is larger."""
    return max(1, BLOCK_BYTES // (n_classes * dtype.itemsize))


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same number type in this machine's byte order."""
    return dtype.newbyteorder("=")
