"""Files as input, opened without waiting: a pipe, a device or a socket in the place of one is refused."""

from __future__ import annotations

import os
import stat
from io import BufferedReader

_MAX_TENSORS_HEADER = 16 * 2**20  # some 100,000 tensors; the largest network here has a thousand


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading.

    Raises
    ------
    ValueError
        If it is something else: to open a pipe can take for ever, and so can reading a device.
    OSError
        If it cannot be opened.
    """
    stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - it is what is returned
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise ValueError("it is not a regular file: save what it would give, and name that file")
    return stream


def refuse_long_header(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if the header of a safetensors file claims to be longer than the file, or than any honest one.

    Also if it is no regular file.
    """
    with open_regular(path) as stream:
        length = int.from_bytes(stream.read(8), "little")
        size = os.fstat(stream.fileno()).st_size
    if length > _MAX_TENSORS_HEADER:
        raise ValueError(f"it states a header of {length:,} bytes, and more than {_MAX_TENSORS_HEADER:,} are not read")
    if 8 + length > size:
        raise ValueError(f"it states a header of {length:,} bytes, but has only {size:,} in all")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes
