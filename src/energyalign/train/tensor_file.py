"""Arrays in a safetensors file, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from energyalign.core.atomic import atomic_write
from energyalign.core.errors import EnergyAlignError


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays."""
    with atomic_write(path, "wb") as stream:
        stream.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read what `save_arrays` wrote."""
    try:
        return dict(load(path.read_bytes()))
    except (OSError, SafetensorError) as error:
        raise EnergyAlignError(f"cannot read {path}: {error}. Run the command that made it again.") from error
