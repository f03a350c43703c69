"""Ctrl-C, SIGTERM and SIGHUP: a process that is told to stop saves, removes its temporary files, and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Self

_HANGUP = tuple([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])  # Windows has none
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *_HANGUP)


class Interrupted(BaseException):
    """Stopped on request; all that was done is saved. As with Ctrl-C, no code that expects errors should catch it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class Interruption:
    """Notes a request to stop while it is entered; a second Ctrl-C stops at once, as without it."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._hearing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._hearing.enter_context(_hearing(self._note, STOP_SIGNALS))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._hearing.close()

    def _note(self, number: int) -> None:
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = number


@contextlib.contextmanager
def stop_signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Interrupted`, as Ctrl-C raises `KeyboardInterrupt` by itself."""
    own_process = os.getpid()

    def stop(number: int) -> None:
        if os.getpid() == own_process:  # processes that read images are ended by this one
            ignore_further_signals()
            raise Interrupted(number)

    with _hearing(stop, STOP_SIGNALS[1:]):
        yield


def ignore_further_signals() -> None:
    """The process is on its way out: a second signal, as of a scheduler that repeats itself, changes nothing."""
    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS[1:]:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _hearing(handler: Callable[[int], None], numbers: tuple[int, ...]) -> Iterator[None]:
    """Send these signals to the handler; but a SIGHUP that is ignored stays so, as `nohup` wants it."""

    def hear(number: int, _frame: FrameType | None) -> None:
        _leave_lost_terminal()
        handler(number)

    before = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere handlers cannot be set
        for number in numbers:
            if number not in _HANGUP or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for number, old in before.items():
            if signal.getsignal(number) is hear:  # or it is ignored until the end
                signal.signal(number, old)


def _leave_lost_terminal() -> None:
    """SIGHUP may mean that the terminal is gone: what is said from now on goes nowhere, instead of failing."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            with contextlib.suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
