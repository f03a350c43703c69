"""A folder that one process at a time may use."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from energyalign.core.errors import EnergyAlignError, TryAgain

_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if need be.

    The operating system holds the lock, so it dies with its holder. Forked processes, such as readers of images that
    outlive a killed holder, do not keep it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnergyAlignError(f"cannot use the folder {path}: {error.strerror or error}.") from error
    # Without fallback_to_soft=False, a file system without locks would get a marker file that outlives its holder.
    lock = FileLock(path / ".lock", blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise TryAgain(f"{path} is in use by another process: wait for it, or give another --out.") from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise EnergyAlignError(f"cannot use the folder {path}: {error.strerror or error}.") from error
        raise EnergyAlignError(
            f"{path} cannot be locked: {error.strerror or error}. Give an --out on a file system that has locks."
        ) from error
    try:
        yield
    finally:
        lock.release()
