"""Ctrl-C and SIGTERM in commands that can go on where they stopped, and what they are called with."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator


def command_line(arguments: argparse.Namespace) -> str:
    """What the program was called with, on one line, as a shell takes it."""
    return shlex.join(["energyalign", *arguments.given]).replace("\n", " ")


@contextlib.contextmanager
def resumable(arguments: argparse.Namespace) -> Iterator[None]:
    """Say how to go on, and leave with the exit code of the signal."""
    from energyalign.train.interruption import Interrupted

    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stop:
        print(f"\nStopped and saved. To go on:\n  {command_line(arguments)}", file=sys.stderr)
        number = stop.signal_number if isinstance(stop, Interrupted) else signal.SIGINT
        raise SystemExit(128 + number) from None
