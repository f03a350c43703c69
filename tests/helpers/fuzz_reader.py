"""Description of a file reader for fuzzing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Files = Mapping[str, bytes]

# pyarrow reserves the size that a page header states, at most 2**31 bytes, but uses only as much as it unpacks.
PARQUET_PAGES = 3 * 2**31


@dataclass(frozen=True)
class Reader:
    """A function that reads files, and valid files for it.

    Attributes
    ----------
    read : function of a folder
        Reads all files in the folder.
    samples : list of dicts from path to content
        Folders of valid files.
    fixed : collection of paths
        Files of these folders that are never changed.
    finish : function of all files of a folder, optional
        Returns the other files that must change too, so that checksums do not stop the reader early.
    named : str
        Text that the message of an error must contain.
    reserved : int
        Address space that the reader may reserve without using it. Resident memory is limited in any case.
    """

    read: Callable[[Path], object]
    samples: list[Files]
    fixed: Collection[str] = field(default=())
    finish: Callable[[Files], dict[str, bytes]] | None = None
    named: str = ""
    reserved: int = 0

    def names(self, message: str) -> bool:
        """Return whether a message names its subject, in one line."""
        return self.named in message and "\n" not in message
