"""Files that are either the old one or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from energyalign.core.errors import EnergyAlignError

PART = ".part"
_DASH = "-"
_MAX_SUFFIX = 16  # characters of a temporary name: `Path.suffix` may be as long as a name


def is_leftover(name: str) -> bool:
    """Whether a file of this name is a temporary one of `atomic_write`, left by a process that was killed."""
    return name.startswith(".") and name.endswith(PART)


def remove_leftovers(folder: Path, suffixes: Collection[str]) -> None:
    """Remove, at any depth, what killed processes left of files with these suffixes, and of folders half removed.

    Only for a folder where nobody else is writing such files.
    """
    for path in [path for path in folder.rglob(f".*{PART}") if is_leftover(path.name)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif Path(path.name.removesuffix(PART)).suffix in suffixes:
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
    A link stays one, and the file that it leads to is replaced; a file that is replaced keeps its permissions.
    """
    with _explaining(path):
        _refuse_what_is_no_file(Path(path))
        target = Path(os.path.realpath(path))
        old = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        # Without the name of the target: with more around it, it might be longer than the system allows.
        temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix[:_MAX_SUFFIX]}{PART}")
        text = "b" not in mode
        # Permissions of a new file are less the umask, as the system makes them: to ask for it, one must set it.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else old)
        try:
            with os.fdopen(
                descriptor, mode, encoding="utf-8" if text else None, newline="\n" if text else None
            ) as stream:
                if old is not None and stat.S_IMODE(temporary.stat().st_mode) != old:
                    temporary.chmod(old)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(target.parent)


@contextlib.contextmanager
def _explaining(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnergyAlignError(
            f"cannot write {path}: {error.strerror or error}. Nothing was changed; "
            "check the folder, its permissions and the free space."
        ) from error


def check_outputs(
    outputs: Iterable[str | os.PathLike[str] | None], inputs: Iterable[str | os.PathLike[str] | None]
) -> None:
    """Raise before any work if an output cannot be written, or is an input or another output by whatever name.

    None stands for a file that was not asked for, ``-`` for standard input or output.
    """
    taken = {_identity(path, 0): f"the input {path}" for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        if path != _DASH:
            refuse_unwritable(path)
        identity = _identity(path, 1)
        if identity in taken:
            raise EnergyAlignError(f"{path} is the same file as {taken[identity]}: give the output a name of its own.")
        taken[identity] = f"the output {path}"


def _identity(path: str | os.PathLike[str], standard: int) -> object:
    """What a file has in common with all links to it; ``-`` is the file that the shell has opened as `standard`."""
    with contextlib.suppress(OSError):
        status = os.stat(standard if path == _DASH else path)
        if stat.S_ISREG(status.st_mode) and status.st_ino:  # not every file system of Windows has the number
            return status.st_dev, status.st_ino
    return (_DASH, standard) if path == _DASH else os.path.realpath(path)


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise now if `path` cannot become a file, rather than after the work that should fill it."""
    with _explaining(path):
        _refuse_what_is_no_file(Path(path))
        target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
        folder = target.parent
        if not folder.is_dir():
            raise EnergyAlignError(f"cannot write {path}: there is no folder {folder}. Make it first.")
        if not os.access(folder, os.W_OK):
            raise EnergyAlignError(f"cannot write {path}: the folder {folder} is not writable.")


def _refuse_what_is_no_file(target: Path) -> None:
    if target.is_dir():
        raise EnergyAlignError(f"{target} is a directory: give the name of a file to write.")
    if target.exists() and not target.is_file():
        # Renaming over a device or a pipe would remove it from the system.
        raise EnergyAlignError(f"{target} is not a regular file: give the name of a file to write.")


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut. Windows cannot open a directory; there this step is skipped."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
