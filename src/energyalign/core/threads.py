"""Pieces of work in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from multiprocessing.pool import ThreadPool
from typing import Self, TypeVar

from threadpoolctl import ThreadpoolController

from energyalign.core.in_order import in_order
from energyalign.core.parts import Stretch

Item = TypeVar("Item")
Result = TypeVar("Result")

# In a part, on average: with fewer, it is Python that takes the time, of which only one thread runs at a time.
FEWEST_NUMBERS = 1 << 17


@cache
def _linear_algebra() -> ThreadpoolController:
    """To look through the libraries of this process takes milliseconds, and NumPy's is there from the beginning."""
    return ThreadpoolController().select(user_api="blas")


class Threads:
    """As many pieces at once as linear algebra would have threads, so that OMP_NUM_THREADS and its like hold.

    Linear algebra itself has one meanwhile, and so has whatever asks for threads within one of them.
    """

    def __init__(self) -> None:
        # Before any of them is limited.
        self._jobs = max((library["num_threads"] for library in _linear_algebra().info()), default=1)
        self._pool: ThreadPool | None = None

    def __enter__(self) -> Self:
        self._limits = _linear_algebra().limit(limits=1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.terminate()  # its threads are daemons: one in the middle of a long part holds nobody up
        self._limits.restore_original_limits()

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Some at once; many small ones need no threads."""
        numbers = sum(stretch.n_rows * stretch.n_classes for stretch in stretches)
        if numbers < FEWEST_NUMBERS * len(stretches):
            return map(work, stretches)
        return self.map_all(work, stretches)

    def map_all(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Some at once; one alone needs no threads."""
        if self._jobs == 1 or len(items) == 1:
            return map(work, items)
        pool = self._pool = self._pool or ThreadPool(self._jobs)
        return in_order(
            items,
            self._jobs + 1,  # the next is ready when one is done; more would only hold their results in memory
            submit=lambda item: pool.apply_async(work, (item,)),
            collect=lambda result: result.get(),
            cancel=lambda _result: None,
        )


class ThreadsOfEachPass:
    """Threads that are there only while the evidence is read: for what is in memory and belongs to no command."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Some at once."""
        with Threads() as threads:
            yield from threads.map(work, stretches)
