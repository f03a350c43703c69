"""Read text files up to a size limit, and JSON without NaN, infinity or duplicate keys."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator
from typing import Any

from energyalign.core._io.regular import open_regular

MAX_BYTES = 256 * 2**20  # shifts of a million classes take 200 MB
# An empty list takes three characters of text but a hundred bytes of memory. Real files are mostly numbers and names.
_MAX_BRACKETS = 500_000
_TEXT_PER_BRACKET = 30


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 file, with or without a byte order mark.

    Raises
    ------
    ValueError
        If it is not a regular file, is too large (checked before reading), or is not UTF-8.
    OSError
        If it cannot be read.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_BYTES:
            raise ValueError(f"it must have at most {MAX_BYTES:,} bytes, got {size:,}")
        return stream.read().decode("utf-8-sig")


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line ends; the size limit is per line."""
    with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="\n") as stream:
        while line := stream.readline(MAX_BYTES + 1):
            if len(line) > MAX_BYTES:
                raise ValueError(f"it has a line of more than {MAX_BYTES:,} characters")
            yield line.rstrip("\r\n")


def read_json_file(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file. Raise `ValueError` if it is invalid, `OSError` if it cannot be read."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """Parse JSON. Raise `ValueError` if it is invalid."""
    if text.count("[") + text.count("{") > _MAX_BRACKETS + len(text) // _TEXT_PER_BRACKET:
        raise ValueError("it has too many lists and objects")
    try:
        return json.loads(
            text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_parse_finite
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # By default the last one would win, and a class would silently lose its number.
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key!r} is given twice")
        seen[key] = value
    return seen


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # 1e999 is valid JSON
        raise ValueError(f"{text[:40]} is not a number that float64 can hold")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")
