"""The process of a command: its memory, its command line, what its children import, and how it is stopped."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Iterator

from energyalign.core._io.signals import Interrupted, ignore_further_signals

# The numbers of these settings in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MAX_HEAPS = -1, -3, -8
_NEVER = 2**31 - 1
_LARGEST_OF_THE_HEAP = 32 * 2**20  # glibc takes no more

_SAFE_PATH = "PYTHONSAFEPATH"


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
def children_on_safe_path() -> Iterator[None]:
    """Let no child, whoever starts it and how, import code from the current folder: it may be anybody's."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextlib.contextmanager
def resumable(arguments: argparse.Namespace) -> Iterator[None]:
    """Say how to go on, and leave with the exit code of the signal.

    Training finishes its batch and saves. Whatever comes before and after it, such as reading data, drawing evidence
    and fitting correctors, is stopped at once: it is done again from the files that are there.
    """
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stop:
        ignore_further_signals()
        print(f"\nStopped and saved. To go on:\n  {command_line(arguments)}", file=sys.stderr)
        raise SystemExit(stop_code(stop)) from None


def stop_code(stop: Interrupted | KeyboardInterrupt) -> int:
    """That of a process which was told to stop."""
    return 128 + (stop.signal_number if isinstance(stop, Interrupted) else signal.SIGINT)
