"""Ctrl-C and SIGTERM in commands that can go on where they stopped, and what they are called with."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType


def command_line(arguments: argparse.Namespace) -> str:
    """What the program was called with, on one line, as a shell takes it."""
    return shlex.join(["energyalign", *arguments.given]).replace("\n", " ")


@contextlib.contextmanager
def resumable(arguments: argparse.Namespace) -> Iterator[None]:
    """Say how to go on, and leave with the exit code of the signal.

    Training finishes its batch and saves. Whatever comes before and after it, such as reading data, drawing evidence
    and fitting correctors, is stopped at once: it is done again from the files that are there.
    """
    from energyalign.experiments.train.interruption import Interrupted

    with _sigterm_raises(Interrupted):
        try:
            yield
        except (Interrupted, KeyboardInterrupt) as stop:
            _leave_unheard(signal.SIGTERM)
            print(f"\nStopped and saved. To go on:\n  {command_line(arguments)}", file=sys.stderr)
            number = stop.signal_number if isinstance(stop, Interrupted) else signal.SIGINT
            raise SystemExit(128 + number) from None


@contextlib.contextmanager
def _sigterm_raises(kind: type[BaseException]) -> Iterator[None]:
    """As Ctrl-C does by itself."""
    if threading.current_thread() is not threading.main_thread():  # elsewhere handlers cannot be set
        yield
        return
    own_process = os.getpid()

    def stop(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == own_process:  # processes that read images are ended by this one
            _leave_unheard(number)
            raise kind(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave_unheard(number: int) -> None:
    """The process is on its way out: a second signal, as of a scheduler that repeats itself, changes nothing."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.SIG_IGN)
