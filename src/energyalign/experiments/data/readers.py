"""Processes that read images for another one: what becomes of signals and of errors in them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from energyalign.core.errors import CannotGoOn, EnergyAlignError


def leave_signals_to_the_parent(_worker: int) -> None:
    """For `worker_init_fn`: only the parent ends a reader.

    Ctrl-C and schedulers signal all processes of a group, and readers must live until the batch is finished. But a
    parent that ends after an error sends SIGTERM to those that are left, and would wait for them for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not hasattr(signal, "sigwaitinfo"):  # macOS and Windows: SIGTERM ends a reader, whoever sends it
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_obey, args=(os.getppid(),), daemon=True).start()


def _obey(parent: int) -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """A reader sends its whole traceback as the message; its last line is the one that was written to be read."""
    try:
        yield
    except CannotGoOn:  # of this process, not of a reader
        raise
    except EnergyAlignError as error:
        raise EnergyAlignError(str(error).strip().rpartition("EnergyAlignError: ")[2]) from error
