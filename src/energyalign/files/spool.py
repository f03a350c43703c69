"""A temporary copy of a stream, for what can be read only once but is needed several times."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from pathlib import Path
from typing import IO

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import reading


class Spool:
    """The rest of `stream` in a temporary file at `path`, removed with this object or at exit."""

    def __init__(self, stream: IO[bytes], name: str, kind: str) -> None:
        try:
            descriptor, path = tempfile.mkstemp(prefix="energyalign-")
            self.path = Path(path)
            weakref.finalize(self, _remove, path)
            with os.fdopen(descriptor, "wb") as copy:
                while chunk := _next_chunk(stream, name, kind):
                    copy.write(chunk)
        except OSError as error:
            raise EnergyAlignError(
                f"cannot keep a temporary copy of {name}: {error.strerror}. Free some space, or point the "
                "environment variable TMPDIR to a folder that has it."
            ) from error


def _next_chunk(stream: IO[bytes], name: str, kind: str) -> bytes:
    """Read apart from the writing, so that a bad source is not reported as a full disk."""
    with reading(name, kind):
        return stream.read(2**20)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
