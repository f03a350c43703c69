"""The pages of a Parquet file, looked at before pyarrow takes memory for as much as they claim to hold.

pyarrow would say where they are, too, but ends the process on some damaged files when it is asked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import refuse_bomb
from energyalign.files.thrift import Compact, Structure

_TAIL = 8  # the length of the footer, and four letters
_HEADER_BYTES = (2**8, 2**16)  # the usual, and with the smallest and the largest value of a column of texts

# Numbers of fields, by the structure that they are in.
_ROW_GROUPS = 4
_COLUMNS, _N_ROWS = 1, 3
_COLUMN_METADATA = 3
_PATH, _COMPRESSED_IN_ALL, _DATA_PAGES, _DICTIONARY_PAGE = 3, 7, 9, 11
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 2, 3


def refuse_false_pages(path: Path, name: str, columns: Collection[str]) -> None:
    """Refuse a file of which a page claims to be larger than the file, or than anything that was packed into it.

    Parameters
    ----------
    path : Path
        A file that pyarrow has opened, so that its footer is there.
    name : str
        What messages call the file.
    columns : collection of str
        Those that will be read.
    """
    with path.open("rb", buffering=0) as stream:  # of every page some bytes are read, and the rest is not
        size = os.fstat(stream.fileno()).st_size
        for column in _columns(stream, size):
            path_in_schema = [part.decode(errors="replace") for part in column.get(_PATH, [])]
            if path_in_schema[:1] and path_in_schema[0] in columns:
                for unpacked in _page_sizes(stream, column, size, name):
                    refuse_bomb(unpacked, size, f"a page of {name}")


def _columns(stream: IO[bytes], size: int) -> Iterator[Structure]:
    """What the footer says of each column of each row group; one group at a time is in memory."""
    stream.seek(max(0, size - _TAIL))
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(max(0, size - _TAIL - length))
    footer = Compact(stream.read(length))
    for field, kind in footer.fields():
        if field != _ROW_GROUPS:
            footer.skip(kind)
            continue
        for _ in footer.elements():
            group = footer.structure()
            if group.get(_N_ROWS):  # without rows there are no pages
                yield from (column[_COLUMN_METADATA] for column in group[_COLUMNS])


def _page_sizes(stream: IO[bytes], column: Structure, size: int, name: str) -> Iterator[int]:
    """What each page of a column in a row group claims to have unpacked."""
    place = column[_DATA_PAGES]
    if 0 < column.get(_DICTIONARY_PAGE, 0) < place:
        place = column[_DICTIONARY_PAGE]
    end = place + column[_COMPRESSED_IN_ALL]
    while 0 <= place < end:
        header, length = _header(stream, place)
        place += length + header[_COMPRESSED_SIZE]
        if header[_COMPRESSED_SIZE] < 0 or place > size:
            raise EnergyAlignError(f"{name} is damaged: a page of it would end beyond its end. Write it again.")
        yield header[_UNCOMPRESSED_SIZE]


def _header(stream: IO[bytes], place: int) -> tuple[Structure, int]:
    """The header of the page at a place, and its length."""
    usual, most = _HEADER_BYTES
    for n_bytes in (usual, most):
        stream.seek(place)
        reader = Compact(stream.read(n_bytes))
        with contextlib.suppress(ValueError):
            return reader.structure(), reader.position
    raise ValueError("a page header is cut off")
