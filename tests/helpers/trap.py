"""A pickle that leaves a trace when it is loaded."""

from __future__ import annotations

import os
import pickle
from pathlib import Path


class Trap:
    """Unpickling an instance creates a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def pickled_trap(path: Path) -> bytes:
    """Return a pickle that creates a folder at this path when it is loaded."""
    return pickle.dumps(Trap(path))
