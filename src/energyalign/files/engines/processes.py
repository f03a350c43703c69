"""Engine that runs in processes of this machine."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

from threadpoolctl import threadpool_limits

from energyalign.core._engine.in_order import in_order
from energyalign.core._engine.parts import Stretch
from energyalign.core._io.signals import STOP_SIGNALS, Interruption
from energyalign.core.errors import CannotGoOn

Result = TypeVar("Result")


class Processes:
    """A pool of `jobs` processes, which read the files themselves and send back only results."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        # This process does some of the work too, and must round as the others do.
        self._limits = threadpool_limits(limits=1, user_api="blas")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is not None:
            if kind is not None:
                self._lifeline.close()  # stops the processes at once
            self._pool.shutdown(cancel_futures=True)
            self._lifeline.close()
        self._limits.restore_original_limits()

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Yield the results in order. A single stretch starts no process."""
        if len(stretches) == 1:
            return map(work, stretches)
        with _signals_wait():
            pool = self._pool = self._pool or self._start()

        def submit(stretch: Stretch) -> Future[Result]:
            starts_one = len(pool._processes) < self._jobs  # the pool starts processes as it needs them
            with self._explained(), _signals_wait() if starts_one else contextlib.nullcontext():
                try:
                    return pool.submit(work, stretch)
                except (OSError, ValueError):
                    # If a process was killed while another one was started, a pipe is closed, and a second attempt
                    # raises BrokenProcessPool. Any other error is simply raised again.
                    return pool.submit(work, stretch)

        def collect(future: Future[Result]) -> Result:
            with self._explained():
                return future.result()

        return in_order(stretches, 2 * self._jobs, submit=submit, collect=collect, cancel=Future.cancel)

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: this process may have threads, whose locks would stay locked in the child.
        context = multiprocessing.get_context("spawn")
        theirs, self._lifeline = context.Pipe(duplex=False)
        return ProcessPoolExecutor(self._jobs, context, initializer=_prepare, initargs=(theirs,))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool as error:
            raise CannotGoOn(
                f"one of the {self._jobs} processes was killed, perhaps because memory ran out: start again with "
                "fewer --jobs."
            ) from error


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Block stop signals while a process is started: it inherits the mask, so that only this process stops it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        with Interruption() as interruption:  # another thread of this process may receive the signal
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if interruption.signal_number is not None:
        signal.raise_signal(interruption.signal_number)


def _prepare(lifeline: Connection[Any, Any]) -> None:
    """Initialise a process of the pool: one BLAS thread, and exit together with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1, user_api="blas")
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection[Any, Any]) -> None:
    """Exit when the other end of the pipe is closed, by the parent or, if that was killed, by the system."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    atexit._run_exitfuncs()  # removes temporary files
    os._exit(1)
