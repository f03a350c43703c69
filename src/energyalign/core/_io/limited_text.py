"""Read text files whole, up to a size limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 256 * 2**20  # shifts of a million classes have 200 MB


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file in UTF-8, with or without the mark that some editors put before it.

    Raises
    ------
    ValueError
        If it is too large, which is seen before it is read, or no text.
    OSError
        If it cannot be read.
    """
    with Path(path).open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_BYTES:
            raise ValueError(f"it has {size:,} bytes, and more than {MAX_BYTES:,} are not read")
        return stream.read().decode("utf-8-sig")


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of such a file one by one, without their ends; the limit is that of a line."""
    with Path(path).open(encoding="utf-8-sig", newline="\n") as stream:
        while line := stream.readline(MAX_BYTES + 1):
            if len(line) > MAX_BYTES:
                raise ValueError(f"it has a line of more than {MAX_BYTES:,} characters")
            yield line.rstrip("\r\n")
