"""Graceful stop on Ctrl-C, SIGTERM and SIGHUP: save, remove temporary files, exit."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Self

_HANGUP = tuple([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])  # not on Windows
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *_HANGUP)


class Interrupted(BaseException):
    """Stopped by a signal, after saving. Like `KeyboardInterrupt`, it is not an `Exception`."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class Interruption:
    """Context manager that records a request to stop; a second Ctrl-C raises `KeyboardInterrupt`."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._handlers = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._handlers.enter_context(_handle_signals(self._record, STOP_SIGNALS))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._handlers.close()

    def _record(self, number: int) -> None:
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = number


@contextlib.contextmanager
def stop_signals_raise() -> Iterator[None]:
    """Raise `Interrupted` on SIGTERM and SIGHUP, as Python raises `KeyboardInterrupt` on Ctrl-C."""
    own_process = os.getpid()

    def stop(number: int) -> None:
        if os.getpid() == own_process:  # not in data-loading workers, which this process stops
            ignore_further_signals()
            raise Interrupted(number)

    with _handle_signals(stop, STOP_SIGNALS[1:]):
        yield


def ignore_further_signals() -> None:
    """Ignore SIGTERM and SIGHUP while exiting: a scheduler may repeat them."""
    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS[1:]:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _handle_signals(handler: Callable[[int], None], numbers: tuple[int, ...]) -> Iterator[None]:
    """Call the handler on these signals. A SIGHUP that is ignored stays ignored, as with `nohup`."""

    def handle(number: int, _frame: FrameType | None) -> None:
        _detach_lost_terminal()
        handler(number)

    before = {}
    if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
        for number in numbers:
            if number not in _HANGUP or signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, old in before.items():
            if signal.getsignal(number) is handle:  # not if further signals are ignored
                signal.signal(number, old)


def _detach_lost_terminal() -> None:
    """Redirect output to the null device if the terminal is gone, as after SIGHUP, so that printing does not fail."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            with contextlib.suppress(OSError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)
