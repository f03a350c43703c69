"""Text files read up to a size limit, and JSON read strictly: no NaN, no infinity, no key given twice."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator
from typing import Any

from energyalign.core._io.regular import open_regular

MAX_BYTES = 256 * 2**20  # shifts of a million classes have 200 MB
# An empty list is three characters of text and a hundred bytes of memory; of honest files most is numbers and names.
_MAX_BRACKETS = 500_000
_TEXT_PER_BRACKET = 30


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file in UTF-8, with or without the mark that some editors put before it.

    Raises
    ------
    ValueError
        If it is no regular file, too large, which is seen before it is read, or no text.
    OSError
        If it cannot be read.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_BYTES:
            raise ValueError(f"it has {size:,} bytes, and more than {MAX_BYTES:,} are not read")
        return stream.read().decode("utf-8-sig")


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of such a file one by one, without their ends; the limit is that of a line."""
    with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="\n") as stream:
        while line := stream.readline(MAX_BYTES + 1):
            if len(line) > MAX_BYTES:
                raise ValueError(f"it has a line of more than {MAX_BYTES:,} characters")
            yield line.rstrip("\r\n")


def read_json_file(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file; a `ValueError` says what is wrong with it, an `OSError` why it cannot be read."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """The value of a JSON text; a `ValueError` says what is wrong with it."""
    if text.count("[") + text.count("{") > _MAX_BRACKETS + len(text) // _TEXT_PER_BRACKET:
        raise ValueError("it has more lists and objects than are read")
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # By default the last of them would win, and a class would silently lose its number.
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key!r} is given twice")
        seen[key] = value
    return seen


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # 1e999 is valid JSON, and no number that a computer has
        raise ValueError(f"{text[:40]} is not a number of a size that can be read")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")
