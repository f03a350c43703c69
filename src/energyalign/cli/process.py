"""Process settings of a command: memory allocator, command line, import path of children, exit codes of signals."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from importlib import import_module

from energyalign.core._io.signals import Interrupted, ignore_further_signals

# Parameters of mallopt in <malloc.h>.
_TRIM_THRESHOLD, _MAX_MAPPED_BLOCKS, _MAX_HEAPS = -1, -4, -8
_NEVER = 2**31 - 1

_SAFE_PATH = "PYTHONSAFEPATH"


def share_one_heap() -> None:
    """Use one heap for all threads, so that a thread can reuse memory that another one has freed.

    Otherwise matrices of a thousand classes stay in the heap of each thread: 40 MB for two threads.
    """
    _set(_MAX_HEAPS, 1)


def keep_freed_memory() -> None:
    """Keep freed memory in the process, and take large blocks from it: training needs them again for the next batch.

    Otherwise the activations of a batch may be returned to the system and faulted in again page by page: 80,000 page
    faults for a batch of ResNet-32, a quarter of its time. Blocks above 32 MiB, as ResNet-50 has, would always be
    mapped anew.
    """
    _set(_TRIM_THRESHOLD, _NEVER)
    _set(_MAX_MAPPED_BLOCKS, 0)


def _set(name: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).mallopt(name, value)


def command_line(arguments: argparse.Namespace) -> str:
    """Return the command line, quoted for a shell, on one line."""
    return shlex.join(["energyalign", *arguments.given]).replace("\n", " ")


def restart_on_safe_path() -> None:
    """Replace this process by one with `-P` if Python was started with `-E`, as in the scripts of some distributions.

    Children of multiprocessing inherit `-E`, which ignores PYTHONSAFEPATH, and would import from the current folder.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])


def import_with_own_settings() -> None:
    """Import Matplotlib in another folder if it would read a `matplotlibrc` in the current one, which may be anyone's.

    Damaged ones are errors, and a pipe of that name would be read forever.
    """
    if os.path.lexists("matplotlibrc"):
        with contextlib.chdir(os.path.dirname(os.path.abspath(__file__))), contextlib.suppress(ImportError):
            import_module("matplotlib")


@contextlib.contextmanager
def children_on_safe_path() -> Iterator[None]:
    """Prevent child processes, including those that libraries start, from importing code from the current folder."""
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
    """On Ctrl-C or a stop signal, print how to resume and exit with the code of the signal.

    Training finishes its batch and saves. Everything else (reading data, drawing evidence, fitting correctors) stops
    at once and is repeated from existing files.
    """
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stop:
        ignore_further_signals()
        print(f"\nStopped and saved. To resume:\n  {command_line(arguments)}", file=sys.stderr)
        raise SystemExit(stop_code(stop)) from None


def stop_code(stop: Interrupted | KeyboardInterrupt) -> int:
    """Return the exit code of a process that was stopped by a signal."""
    return 128 + (stop.signal_number if isinstance(stop, Interrupted) else signal.SIGINT)
