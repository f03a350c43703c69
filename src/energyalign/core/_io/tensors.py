"""Read safetensors files.

They are not memory-mapped: accessing the map of a file that has been truncated kills the process (SIGBUS).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BufferedReader
from typing import TypeVar

from energyalign.core._io.strict_json import parse_json

_MAX_HEADER = 16 * 2**20  # room for about 100,000 tensors; the largest network here has a thousand

Tensor = TypeVar("Tensor")


def read_tensors(
    stream: BufferedReader, load: Callable[[bytes], dict[str, Tensor]]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors, in the order of the file, and the metadata of a safetensors file.

    `load` is `safetensors.torch.load` or `safetensors.numpy.load`. Both return the tensors in arbitrary order.

    Raises
    ------
    ValueError
        If the header is not JSON, or is longer than the file or than 16 MiB.
    SafetensorError
        If the header does not describe the file.
    """
    start = stream.read(8)
    length, size = int.from_bytes(start, "little"), os.fstat(stream.fileno()).st_size
    if length > _MAX_HEADER:
        raise ValueError(f"its header must have at most {_MAX_HEADER:,} bytes, got {length:,}")
    if 8 + length > size:
        raise ValueError(f"its header should have {length:,} bytes, but the whole file has {size:,}")
    text = stream.read(length)
    tensors = load(start + text + stream.read())  # validates the header
    header = parse_json(text.decode())
    metadata = header.pop("__metadata__", None) or {}
    return {name: tensors[name] for name in header}, metadata
