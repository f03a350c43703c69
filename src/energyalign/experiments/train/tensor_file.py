"""Arrays in a safetensors file, whole or not at all, with a checksum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.regular import open_regular
from energyalign.core.errors import EnergyAlignError

Arrays = dict[str, npt.NDArray[Any]]

_CHECKSUM = "sha256"
_REMEDY = "Remove it and run the command that made it again."
_MAX_HEADER = 16 * 2**20  # some 100,000 tensors; the largest network here has a thousand


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_write(path, "wb") as stream:
        stream.write(save(contiguous, {_CHECKSUM: _digest(contiguous)}))


def load_arrays(path: Path) -> Arrays:
    """Read what `save_arrays` wrote, and refuse it if it was changed since."""
    try:
        refuse_long_header(path)
        with safe_open(path, "np") as stream:
            expected = (stream.metadata() or {}).get(_CHECKSUM)
            arrays: Arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError, TypeError, ValueError, AttributeError) as error:  # all of them on damaged headers
        raise EnergyAlignError(f"cannot read {path}: {error}. {_REMEDY}") from error
    if expected is None:
        raise EnergyAlignError(f"{path} has no checksum, so energyalign did not write it. {_REMEDY}")
    if expected != _digest(arrays):
        raise EnergyAlignError(f"{path} is damaged: its contents do not match their checksum. {_REMEDY}")
    return arrays


def _digest(arrays: Arrays) -> str:
    return digest("", (Entry(name, array.dtype.str, array.shape, array.data) for name, array in arrays.items()))


class Entry(NamedTuple):
    """One array: its bytes and what gives them a meaning."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


def digest(about: str, entries: Iterable[Entry]) -> str:
    """SHA-256 of names, types, shapes and bytes, whatever their order, so that no change goes unseen."""
    total = hashlib.sha256(about.encode())
    for entry in sorted(entries):
        total.update(f"{entry.name} {entry.dtype} {entry.shape}\n".encode())
        total.update(entry.data)
    return total.hexdigest()


def refuse_long_header(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if the file says that its header is longer than an honest one could be, or than the file.

    Also if it is no regular file.
    """
    with open_regular(path) as stream:
        length = int.from_bytes(stream.read(8), "little")
        size = os.fstat(stream.fileno()).st_size
    if length > _MAX_HEADER:
        raise ValueError(f"it states a header of {length:,} bytes, and more than {_MAX_HEADER:,} are not read")
    if 8 + length > size:
        raise ValueError(f"it states a header of {length:,} bytes, but has only {size:,} in all")
