"""A pickle that shows that it was loaded."""

from __future__ import annotations

import os
import pickle
from pathlib import Path


class Trap:
    """Unpickling an instance makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def pickled_trap(path: Path) -> bytes:
    """The pickle that makes a folder at this path."""
    return pickle.dumps(Trap(path))
