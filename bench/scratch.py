"""A place for files of gigabytes, which the system's folder for temporary ones may have no room for."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """In this folder, under a name that git ignores: a benchmark that is killed leaves it behind."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        yield Path(folder)
