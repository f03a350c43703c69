"""A checksum of named arrays and of what is said about them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """One array: its bytes and what gives them a meaning."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


def digest(about: str, entries: Iterable[Entry]) -> str:
    """SHA-256 of names, types, shapes and bytes, whatever their order, so that no change goes unseen."""
    total = hashlib.sha256(about.encode())
    for entry in sorted(entries):
        total.update(f"{entry.name} {entry.dtype} {entry.shape}\n".encode())
        total.update(entry.data)
    return total.hexdigest()
