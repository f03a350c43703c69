"""Run work in the main thread of a separate process, one turn at a time, as a command would run it.

Compared programs must not share a process: once two threads of a process have run parallel loops, OpenMP sees more
threads than processors and lets all of them wait passively, which makes a training a tenth slower.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection


class NoMoreTurns(BaseException):
    """The other process has closed the connection: there are no more turns."""


class Turns:
    """The worker's side of the connection: waits for turns."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._begun = False

    def next(self) -> None:
        """End the current turn, if there is one, and wait for the next."""
        try:
            if self._begun:
                self._connection.send(None)
            self._begun = True
            self._connection.recv()
        except (EOFError, OSError):
            raise NoMoreTurns from None


class OwnProcess:
    """A process that calls ``work(turns, *args)``."""

    def __init__(self, work: Callable[..., None], *args: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_work, args=(other_end, work, args))
        self._process.start()
        other_end.close()

    def turn(self) -> None:
        """Run one turn."""
        self._connection.send(None)
        problem = self._connection.recv()
        if problem is not None:
            raise RuntimeError(problem)

    def close(self) -> None:
        """End the process."""
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
