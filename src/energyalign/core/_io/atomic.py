"""Files that are either the old one or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from energyalign.core.errors import EnergyAlignError

PART = ".part"


def is_leftover(name: str) -> bool:
    """Whether a file of this name is a temporary one of `atomic_write`, left by a process that was killed."""
    return name.startswith(".") and name.endswith(PART)


def remove_leftovers(folder: Path, suffixes: Collection[str]) -> None:
    """Remove, at any depth, what killed processes left of files with these suffixes, and of folders half removed.

    Only for a folder where nobody else is writing such files.
    """
    for path in [path for path in folder.rglob(f".*{PART}") if is_leftover(path.name)]:
        target = Path(path.name[1 : -len(PART)]).stem  # without the letters that made the name unique
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif Path(target).suffix in suffixes:
            path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it. Of a process that is killed meanwhile, a leftover is left."""
    away = folder.with_name(f".{folder.name}{PART}")
    shutil.rmtree(away, ignore_errors=True)  # of an earlier try
    folder.rename(away)
    shutil.rmtree(away)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` and rename it to `path` once it is whole and on disk.

    Whatever fails on the way (an exception, a full disk, Ctrl-C) leaves an existing `path` as it was and
    removes the temporary file. Operating-system errors become one `EnergyAlignError` that names `path`.
    """
    target = Path(path)
    _refuse_what_is_no_file(target)
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=PART)
        _permit_as_usual(descriptor)
        text = "b" not in mode
        with os.fdopen(descriptor, mode, encoding="utf-8" if text else None, newline="\n" if text else None) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        temporary = None
        _sync_directory(target.parent)
    except OSError as error:
        raise EnergyAlignError(
            f"cannot write {target}: {error.strerror or error}. Nothing was changed; "
            "check the folder, its permissions and the free space."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise now if `path` cannot become a file, rather than after the work that should fill it."""
    target = Path(path)
    _refuse_what_is_no_file(target)
    if not target.parent.is_dir():
        raise EnergyAlignError(f"cannot write {target}: there is no folder {target.parent}. Make it first.")
    if not os.access(target.parent, os.W_OK):
        raise EnergyAlignError(f"cannot write {target}: the folder {target.parent} is not writable.")


def _refuse_what_is_no_file(target: Path) -> None:
    if target.is_dir():
        raise EnergyAlignError(f"{target} is a directory: give the name of a file to write.")
    if target.exists() and not target.is_file():
        # Renaming over a device or a pipe would remove it from the system.
        raise EnergyAlignError(f"{target} is not a regular file: give the name of a file to write.")


def _permit_as_usual(descriptor: int) -> None:
    """Give a file of `mkstemp`, which is private, the permissions of any new file. On Windows it has them already."""
    if hasattr(os, "fchmod") and hasattr(os, "umask"):
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(descriptor, 0o666 & ~umask)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut. Windows cannot open a directory; there this step is skipped."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
