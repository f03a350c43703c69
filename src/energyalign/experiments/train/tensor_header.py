"""The header of a safetensors file, looked at before anything parses it."""

from __future__ import annotations

import os
from pathlib import Path

MAX_BYTES = 16 * 2**20  # some 100,000 tensors; the largest network here has a thousand


def refuse_long_header(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if the file says that its header is longer than an honest one could be, or than the file."""
    with Path(path).open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        size = os.fstat(stream.fileno()).st_size
    if length > MAX_BYTES:
        raise ValueError(f"it states a header of {length:,} bytes, and more than {MAX_BYTES:,} are not read")
    if 8 + length > size:
        raise ValueError(f"it states a header of {length:,} bytes, but has only {size:,} in all")
