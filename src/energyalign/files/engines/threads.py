"""Parts of the evidence in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from typing import Self, TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

from energyalign.core.parts import Stretch
from energyalign.files.engines.in_order import in_order

Result = TypeVar("Result")

# In a part, on average: with fewer, it is Python that takes the time, of which only one thread runs at a time.
FEWEST_NUMBERS = 1 << 17


class Threads:
    """As many parts at once as linear algebra would have threads, so that OMP_NUM_THREADS and its like hold."""

    def __init__(self) -> None:
        # Before any of them is limited.
        libraries = ThreadpoolController().select(user_api="blas").info()
        self._jobs = max((library["num_threads"] for library in libraries), default=1)
        self._pool: ThreadPool | None = None

    def __enter__(self) -> Self:
        self._limits = threadpool_limits(limits=1, user_api="blas")
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.terminate()  # its threads are daemons: one in the middle of a long part holds nobody up
        self._limits.restore_original_limits()

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Some at once; one alone needs no threads, nor do many small ones."""
        numbers = sum(stretch.n_rows * stretch.n_classes for stretch in stretches)
        if self._jobs == 1 or len(stretches) == 1 or numbers < FEWEST_NUMBERS * len(stretches):
            return map(work, stretches)
        pool = self._pool = self._pool or ThreadPool(self._jobs)
        return in_order(
            stretches,
            2 * self._jobs,
            submit=lambda stretch: pool.apply_async(work, (stretch,)),
            collect=lambda result: result.get(),
            cancel=lambda _result: None,
        )
