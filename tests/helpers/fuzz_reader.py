"""What fuzzing needs to know of a reader of files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Files = Mapping[str, bytes]

# pyarrow reserves what the header of a page states, at most 2**31 bytes, and uses only as much as there is to unpack.
PARQUET_PAGES = 3 * 2**31


@dataclass(frozen=True)
class Reader:
    """A function that reads files, and what it reads.

    Attributes
    ----------
    read : function of a folder
        Reads the files in it to their end.
    samples : list of dicts from path to content
        Folders of valid files.
    fixed : collection of paths
        Files of these folders that are never changed.
    finish : function of all files of a folder, optional
        The files that must change with a changed one, so that no checksum hides what comes after it.
    named : str
        What the message of an error must have in it.
    reserved : int
        Address space that it may reserve without using it. Resident memory is limited all the same.
    """

    read: Callable[[Path], object]
    samples: list[Files]
    fixed: Collection[str] = field(default=())
    finish: Callable[[Files], dict[str, bytes]] | None = None
    named: str = ""
    reserved: int = 0

    def names(self, message: str) -> bool:
        """Whether a message names what it is about, in one line."""
        return self.named in message and "\n" not in message
