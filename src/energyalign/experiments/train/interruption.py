"""Ctrl-C and SIGTERM: finish the batch, save, stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupted(BaseException):
    """Stopped on request; all that was done is saved. As with Ctrl-C, no code that expects errors should catch it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class Interruption:
    """Notes a request to stop while it is entered; a second Ctrl-C stops at once, as without it."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere handlers cannot be set
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = number
