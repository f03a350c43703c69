"""One heap for all threads of a command."""

from __future__ import annotations

import contextlib
import ctypes

_MOST_HEAPS = -8  # M_ARENA_MAX of glibc


def share_one_heap() -> None:
    """Have the C library keep no heap for each thread, if it is one that does (glibc).

    What one thread has freed another can use then. Matrices of a thousand classes would otherwise stay behind in the
    heap of each thread: 40 MB for two of them.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # where there is no such library or function
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 1)
