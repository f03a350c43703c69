"""Files as input, opened without waiting: a pipe, a device or a socket in the place of one is refused."""

from __future__ import annotations

import os
import stat
from io import BufferedReader


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


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes
