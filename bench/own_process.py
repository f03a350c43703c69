"""Work in the main thread of a process of its own, as in a command of its own, a turn at a time.

Contestants that are to be compared must not share a process: once two of its threads have run parallel loops, OpenMP
sees more threads than processors and lets all of them wait passively, which makes a training a tenth slower.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection


class NoMoreTurns(BaseException):
    """There is no more to be done."""


class Turns:
    """What the work inside asks when it has done its part."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._begun = False

    def next(self) -> None:
        """Say that a turn is over, if it is not the first, and wait for the next."""
        try:
            if self._begun:
                self._connection.send(None)
            self._begun = True
            self._connection.recv()
        except (EOFError, OSError):
            raise NoMoreTurns from None


class OwnProcess:
    """Starts the process, which calls ``work(turns, *args)``."""

    def __init__(self, work: Callable[..., None], *args: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_work, args=(other_end, work, args))
        self._process.start()
        other_end.close()

    def turn(self) -> None:
        """Have it take one."""
        self._connection.send(None)
        problem = self._connection.recv()
        if problem is not None:
            raise RuntimeError(problem)

    def close(self) -> None:
        """No more."""
        self._connection.close()
        self._process.join()


def _work(connection: Connection, work: Callable[..., None], args: tuple[object, ...]) -> None:
    try:
        work(Turns(connection), *args)
    except NoMoreTurns:
        pass
    except BaseException:
        with contextlib.suppress(OSError):  # nobody waits for it any more
            connection.send(traceback.format_exc())
