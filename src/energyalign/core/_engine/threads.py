"""Threads of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from threadpoolctl import ThreadpoolController

from energyalign.core._engine.forks import cached_property, hold_while_forking
from energyalign.core._engine.in_order import in_order
from energyalign.core._engine.parts import Stretch

if TYPE_CHECKING:
    from multiprocessing.pool import ThreadPool

Item = TypeVar("Item")
Result = TypeVar("Result")

# Minimum average size of a part: below it, Python's overhead dominates, which threads cannot share.
MIN_NUMBERS = 1 << 17


class _LinearAlgebra:
    """Limits BLAS to one thread while anything in this process uses its own threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._jobs = 1
        hold_while_forking(self._lock, self._forget_other_threads)

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        """Loaded BLAS libraries, searched once because that takes milliseconds. NumPy has loaded one already."""
        return ThreadpoolController().select(user_api="blas")

    def limit(self) -> int:
        """Limit BLAS to one thread; return how many it had."""
        with self._lock:
            if self._users == 0:
                self._jobs = max((library["num_threads"] for library in self._libraries.info()), default=1)
                self._limits = self._libraries.limit(limits=1)
            self._users += 1
            _own.limits = _limits_of_this_thread() + 1
            return self._jobs

    def release(self) -> None:
        """Restore the limit after the last user."""
        with self._lock:
            self._users -= 1
            _own.limits = _limits_of_this_thread() - 1
            if self._users == 0:
                self._limits.restore_original_limits()

    def _forget_other_threads(self) -> None:
        """Reset the count in the child of a fork, which has only the thread that forked."""
        if self._users > 0:
            self._users = _limits_of_this_thread()
            if self._users == 0:
                self._limits.restore_original_limits()


_own = threading.local()


def _limits_of_this_thread() -> int:
    return getattr(_own, "limits", 0)


_LINEAR_ALGEBRA = _LinearAlgebra()


@contextlib.contextmanager
def linear_algebra_in_one_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that rounding does not depend on the number of cores."""
    _LINEAR_ALGEBRA.limit()
    try:
        yield
    finally:
        _LINEAR_ALGEBRA.release()


def _begin_thread() -> None:
    _own.is_one_of_many = True


class Threads:
    """A pool of `max_jobs` threads; by default as many as BLAS would use, so that OMP_NUM_THREADS applies.

    While a pool is open, BLAS is limited to one thread. A pool opened in a thread of another pool has one thread.
    """

    def __init__(self, max_jobs: int | None = None) -> None:
        self._max_jobs = max_jobs
        self._pool: ThreadPool | None = None

    def __enter__(self) -> Self:
        jobs = _LINEAR_ALGEBRA.limit()
        self.jobs = 1 if getattr(_own, "is_one_of_many", False) else min(jobs, self._max_jobs or jobs)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._pool is not None:
                self._pool.terminate()  # does not wait for threads, which are daemons
        finally:
            _LINEAR_ALGEBRA.release()

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Call `work` on several stretches at once, or in turn if they are too small for threads."""
        numbers = sum(stretch.n_rows * stretch.n_classes for stretch in stretches)
        if numbers < MIN_NUMBERS * len(stretches):
            return map(work, stretches)
        return self.map_all(work, stretches)

    def map_all(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Call `work` on several items at once, or in this thread if there is only one."""
        if self.jobs == 1 or len(items) == 1:
            return map(work, items)
        if self._pool is None:
            from multiprocessing.pool import ThreadPool

            self._pool = ThreadPool(self.jobs, initializer=_begin_thread)
        pool = self._pool
        return in_order(
            items,
            self.jobs + 1,  # one is queued; more would only keep results in memory
            submit=lambda item: pool.apply_async(work, (item,)),
            collect=lambda result: result.get(),
            cancel=lambda _result: None,
        )


class ThreadsOfEachPass:
    """An engine that starts threads for each pass over the evidence and stops them afterwards."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Call `work` on several stretches at once."""
        with Threads() as threads:
            yield from threads.map(work, stretches)
