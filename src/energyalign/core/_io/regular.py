"""Open input files without blocking; refuse pipes, devices and sockets."""

from __future__ import annotations

import os
import stat
from io import BufferedReader

_MAX_TENSORS_HEADER = 16 * 2**20  # room for about 100,000 tensors; the largest network here has a thousand


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading.

    Raises
    ------
    ValueError
        If it is not a regular file: opening a pipe or reading a device may block forever.
    OSError
        If it cannot be opened.
    """
    stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - returned
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise ValueError("it is not a regular file: save its contents to a file first")
    return stream


def refuse_long_header(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if a safetensors file states a header longer than the file or than 16 MiB.

    Also raise it if the file is not a regular file.
    """
    with open_regular(path) as stream:
        length = int.from_bytes(stream.read(8), "little")
        size = os.fstat(stream.fileno()).st_size
    if length > _MAX_TENSORS_HEADER:
        raise ValueError(f"its header must have at most {_MAX_TENSORS_HEADER:,} bytes, got {length:,}")
    if 8 + length > size:
        raise ValueError(f"it states a header of {length:,} bytes, but has only {size:,} bytes in total")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # not on Windows
