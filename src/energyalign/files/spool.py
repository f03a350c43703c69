"""Temporary copies of streams that can be read only once, such as standard input."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO

from energyalign.core.errors import EnergyAlignError
from energyalign.files.checks import reading

DASH = "-"
STDIN = "standard input"

_MAGIC = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PK\x05\x06": ".npz", b"PAR1": ".parquet"}


class Spool:
    """A copy of the rest of `stream` in a temporary file at `path`, removed with this object or at exit."""

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
                f"cannot write a temporary copy of {name}: {error.strerror}. Free some space, or set the environment "
                "variable TMPDIR to a folder that has it."
            ) from error


def _next_chunk(stream: IO[bytes], name: str, kind: str) -> bytes:
    """Read a chunk. A read error must not be reported as a full disk."""
    with reading(name, kind):
        return stream.read(2**20)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def spool_stdin() -> tuple[Spool, str]:
    """Copy standard input to a temporary file; return it and the extension of its format.

    Logits are streamed several times, but a pipe can be read only once. The format is recognised by its magic number;
    .csv, which has none, is the default.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise EnergyAlignError(f"{STDIN} is closed: pipe logits into it, or give a file instead of `-`.")
    spool = Spool(sys.stdin.buffer, STDIN, "a stream of bytes")
    with spool.path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        raise EnergyAlignError(f"{STDIN} is empty: did the command before the pipe fail?")
    extensions = (extension for magic, extension in _MAGIC.items() if start.startswith(magic))
    return spool, next(extensions, ".csv")
