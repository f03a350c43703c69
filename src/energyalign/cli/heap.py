"""How the C library keeps the memory of a command, if it is one that can be told (glibc)."""

from __future__ import annotations

import contextlib
import ctypes

# The numbers of these settings in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MOST_HEAPS = -1, -3, -8
_NEVER = 2**31 - 1
_LARGEST_OF_THE_HEAP = 32 * 2**20  # glibc takes no more


def share_one_heap() -> None:
    """One heap for all threads: what one thread has freed another can use then.

    Matrices of a thousand classes would otherwise stay behind in the heap of each thread: 40 MB for two of them.
    """
    _set(_MOST_HEAPS, 1)


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
