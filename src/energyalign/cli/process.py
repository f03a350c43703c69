"""The process of a command: its memory, its command line, and how Ctrl-C and SIGTERM stop it."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

# The numbers of these settings in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MAX_HEAPS = -1, -3, -8
_NEVER = 2**31 - 1
_LARGEST_OF_THE_HEAP = 32 * 2**20  # glibc takes no more


def share_one_heap() -> None:
    """One heap for all threads: what one thread has freed another can use then.

    Matrices of a thousand classes would otherwise stay behind in the heap of each thread: 40 MB for two of them.
    """
    _set(_MAX_HEAPS, 1)


def keep_freed_memory() -> None:
    """Memory that was freed stays with the process: a training needs as much again for the next batch.

    Otherwise it can happen that the activations of every batch are given back, and come back page by page: 80,000 of
    them for a batch of ResNet-32, a quarter of its time.
    """
    _set(_TRIM_THRESHOLD, _NEVER)
    _set(_MMAP_THRESHOLD, _LARGEST_OF_THE_HEAP)


def _set(name: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):  # where there is no such library or function
        ctypes.CDLL(None).mallopt(name, value)


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
