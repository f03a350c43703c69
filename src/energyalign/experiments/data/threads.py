"""Many small jobs on files, in threads: reading and Pillow's decoders let other threads run meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_CHUNK = 64  # a future for each of half a million files would cost more memory than the files' names

_Result = TypeVar("_Result")


def map_in_threads(function: Callable[[int], _Result], n: int) -> Generator[_Result, None, None]:
    """function(0), ..., function(n - 1), in this order."""

    def run(first: int) -> list[_Result]:
        return [function(index) for index in range(first, min(first + _CHUNK, n))]

    pool = ThreadPoolExecutor(max_workers=min(32, os.cpu_count() or 1))
    try:
        for results in pool.map(run, range(0, n, _CHUNK)):
            yield from results
    finally:
        # Whoever stops early, by an error or by having seen enough, does not wait for the rest.
        pool.shutdown(cancel_futures=True)
