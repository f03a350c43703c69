"""Open input files without blocking; refuse pipes, devices and sockets."""

from __future__ import annotations

import os
import stat
from io import BufferedReader


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


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # not on Windows
