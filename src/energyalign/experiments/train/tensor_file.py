"""Arrays in a safetensors file, written atomically, with a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from energyalign.core._io.atomic import atomic_write
from energyalign.core._io.regular import open_regular
from energyalign.core._io.tensors import read_tensors
from energyalign.core.errors import EnergyAlignError

Arrays = dict[str, npt.NDArray[Any]]

_CHECKSUM = "sha256"
_REMEDY = "Remove it and run the command that made it again."


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays to a file."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_write(path, "wb") as stream:
        stream.write(save(contiguous, {_CHECKSUM: _digest(contiguous)}))


def load_arrays(path: Path) -> Arrays:
    """Read what `save_arrays` wrote; raise if it is damaged."""
    try:
        with open_regular(path) as stream:
            arrays, metadata = read_tensors(stream, load)
    except (OSError, SafetensorError, TypeError, ValueError, AttributeError) as error:  # also for damaged headers
        raise EnergyAlignError(f"cannot read {path}: {error}. {_REMEDY}") from error
    expected = metadata.get(_CHECKSUM)
    if expected is None:
        raise EnergyAlignError(f"{path} has no checksum, so energyalign did not write it. {_REMEDY}")
    if expected != _digest(arrays):
        raise EnergyAlignError(f"{path} is damaged: its contents do not match their checksum. {_REMEDY}")
    return arrays


def _digest(arrays: Arrays) -> str:
    return digest("", ((name, array.dtype.str, array.shape, array.data) for name, array in arrays.items()))


def digest(about: str, arrays: Iterable[tuple[str, str, tuple[int, ...], bytes | memoryview]]) -> str:
    """Return the SHA-256 of a description and of arrays: name, type, shape and bytes of each, in any order."""
    total = hashlib.sha256(about.encode())
    for name, dtype, shape, data in sorted(arrays):
        total.update(f"{name} {dtype} {shape}\n".encode())
        total.update(data)
    return total.hexdigest()
