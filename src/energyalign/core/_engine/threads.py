"""Work in threads of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from typing import Self, TypeVar

from threadpoolctl import ThreadpoolController

from energyalign.core._engine.forks import cached_property, hold_while_forking
from energyalign.core._engine.in_order import in_order
from energyalign.core._engine.parts import Stretch

Item = TypeVar("Item")
Result = TypeVar("Result")

# Numbers in an average part: with fewer, Python takes the time, and runs only one thread at a time.
MIN_NUMBERS = 1 << 17


class _LinearAlgebra:
    """Limits the threads of linear algebra to one as long as anybody in this process uses threads of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._jobs = 1
        hold_while_forking(self._lock, self._forget_other_threads)

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        """Found once: the search takes milliseconds, and NumPy's library is loaded from the beginning."""
        return ThreadpoolController().select(user_api="blas")

    def limit(self) -> int:
        """Limit linear algebra to one thread; return how many it had."""
        with self._lock:
            if self._users == 0:
                self._jobs = max((library["num_threads"] for library in self._libraries.info()), default=1)
                self._limits = self._libraries.limit(limits=1)
            self._users += 1
            _own.limits = _limits_of_this_thread() + 1
            return self._jobs

    def release(self) -> None:
        """Give the threads back after the last user."""
        with self._lock:
            self._users -= 1
            _own.limits = _limits_of_this_thread() - 1
            if self._users == 0:
                self._limits.restore_original_limits()

    def _forget_other_threads(self) -> None:
        """In the child of a fork, which has none but the one that forked."""
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
    """Make results independent of the number of cores: rounding depends on the number of threads."""
    _LINEAR_ALGEBRA.limit()
    try:
        yield
    finally:
        _LINEAR_ALGEBRA.release()


def _begin_thread() -> None:
    _own.is_one_of_many = True


class Threads:
    """Works on as many pieces at once as linear algebra would have threads: OMP_NUM_THREADS and its like hold.

    Linear algebra itself has one meanwhile, and so has whatever asks for threads within one of them.
    """

    def __init__(self) -> None:
        self._pool: ThreadPool | None = None

    def __enter__(self) -> Self:
        jobs = _LINEAR_ALGEBRA.limit()
        self.jobs = 1 if getattr(_own, "is_one_of_many", False) else jobs
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._pool is not None:
                self._pool.terminate()  # its threads are daemons: one in the middle of a long part holds nobody up
        finally:
            _LINEAR_ALGEBRA.release()

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Work on some at once, or in turn if they are small: threads would not pay."""
        numbers = sum(stretch.n_rows * stretch.n_classes for stretch in stretches)
        if numbers < MIN_NUMBERS * len(stretches):
            return map(work, stretches)
        return self.map_all(work, stretches)

    def map_all(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Work on some at once, or here if there is only one."""
        if self.jobs == 1 or len(items) == 1:
            return map(work, items)
        pool = self._pool = self._pool or ThreadPool(self.jobs, initializer=_begin_thread)
        return in_order(
            items,
            self.jobs + 1,  # the next is ready when one is done; more would only hold their results in memory
            submit=lambda item: pool.apply_async(work, (item,)),
            collect=lambda result: result.get(),
            cancel=lambda _result: None,
        )


class ThreadsOfEachPass:
    """Starts threads for each pass over evidence in memory and stops them after it."""

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Work on some at once."""
        with Threads() as threads:
            yield from threads.map(work, stretches)
