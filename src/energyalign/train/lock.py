"""A folder that is one process's own for a while."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from energyalign.core.errors import EnergyAlignError, TryAgain

_held: set[IO[str]] = set()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep a folder to this process; it is made if need be. The lock dies with its holder."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("a")
    except OSError as error:
        raise EnergyAlignError(f"cannot use the folder {path}: {error.strerror or error}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TryAgain(f"{path} is in use by another process: wait for it, or give another --out.") from error
        except OSError as error:
            raise EnergyAlignError(
                f"{path} cannot be locked: {error.strerror or error}. Give an --out on a file system that has locks."
            ) from error
        _held.add(lock)
        try:
            yield
        finally:
            _held.discard(lock)


def _let_go() -> None:
    """In a forked process: a reader of images that outlives a killed holder would keep the lock for it."""
    for lock in _held:
        lock.close()
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
