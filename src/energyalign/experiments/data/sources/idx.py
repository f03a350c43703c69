"""The idx format of MNIST and its relatives: a magic number, the sizes, then bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import refuse_bomb

_UNSIGNED_BYTES = 8


def read_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, gzipped or not."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            header = stream.read(4 + 4 * n_dimensions)
            zeros, kind, stated, *sizes = struct.unpack(f">HBB{n_dimensions}I", header)
            if (zeros, kind, stated) != (0, _UNSIGNED_BYTES, n_dimensions):
                raise ValueError("it does not begin like one")
            size = math.prod(sizes)
            refuse_bomb(size, path.stat().st_size, "its content")
            content = stream.read(size + 1)  # one more, to see that it ends there
            if len(content) != size:
                raise ValueError(
                    f"its header says {size:,} bytes, but it has {'more' if len(content) > size else 'less'}"
                )
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise EnergyAlignError(
            f"{path} is not a whole idx file of {n_dimensions} dimensions ({error}). Get it again."
        ) from error
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)
