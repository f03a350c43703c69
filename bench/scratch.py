"""A folder for files of gigabytes, which may not fit into the system's temporary folder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder below this one, with a name that git ignores in case a killed benchmark leaves it behind."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        yield Path(folder)
