"""Logits from standard input, recognised by their first bytes."""

from __future__ import annotations

import sys

from energyalign.core.errors import EnergyAlignError
from energyalign.files.spool import Spool

DASH = "-"
STDIN = "standard input"

_MAGIC = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PK\x05\x06": ".npz", b"PAR1": ".parquet"}


def spool_stdin() -> tuple[Spool, str]:
    """Copy standard input to a temporary file; return it and the extension that its format would have.

    Logits are streamed several times, and a pipe can be read once. What has none of the known first bytes is
    taken for .csv, the one format without any.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise EnergyAlignError(f"{STDIN} is closed: pipe the logits into it, or name a file instead of `-`.")
    spool = Spool(sys.stdin.buffer, STDIN, "a stream of bytes")
    with spool.path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        raise EnergyAlignError(f"{STDIN} is empty: did the command before the pipe fail?")
    extensions = (extension for magic, extension in _MAGIC.items() if start.startswith(magic))
    return spool, next(extensions, ".csv")
