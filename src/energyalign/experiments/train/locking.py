"""Lock a folder against other processes, and find it again after it was renamed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from energyalign.core.errors import EnergyAlignError, TryAgain

LOCK = ".lock"
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a folder against other processes, and create it if needed.

    The operating system releases the lock when its holder dies. Forked processes, such as image readers that outlive a
    killed holder, do not keep it.
    """
    # Without fallback_to_soft=False, a file system without locks would get a marker file that outlives its holder.
    lock = FileLock(path / LOCK, blocking=False, fallback_to_soft=False)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise TryAgain(f"{path} is in use by another process: wait for it, or give another --out.") from error
    except OSError as error:
        reason = error.strerror or error
        if error.errno not in _NO_LOCKS:
            raise EnergyAlignError(f"cannot use the folder {path}: {reason}.") from error
        raise EnergyAlignError(
            f"{path} cannot be locked: {reason}. Give an --out on a file system that has locks."
        ) from error
    try:
        yield
    finally:
        lock.release()


class HeldFolder:
    """A folder that can be found after it was renamed, if the system has file descriptors of folders."""

    def __init__(self, path: Path) -> None:
        self.path, self._identity, self._lock = path, _identity(path), _identity(path / LOCK)
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # Windows has none, and does not rename a folder with an open file
            self._descriptor = os.open(path, os.O_RDONLY)

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def find(self) -> Path | None:
        """Return the current path; None if the folder was removed, or moved where this system cannot find it."""
        return next((place for place in self._places() if _identity(place) == self._identity), None)

    def is_locked(self) -> bool:
        """Return whether the lock file is still the original: removing it lets another process in."""
        return _identity(self.path / LOCK) == self._lock

    def _places(self) -> Iterator[Path]:
        yield self.path
        with contextlib.suppress(OSError):
            yield Path(os.readlink(f"/proc/self/fd/{self._descriptor}"))  # Linux
        with contextlib.suppress(OSError):
            yield from self.path.parent.iterdir()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
