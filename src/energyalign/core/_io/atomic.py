"""Atomic file writes: a file is either the old one or the complete new one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from energyalign.core.errors import EnergyAlignError

PART = ".part"
_DASH = "-"
_MAX_SUFFIX = 16  # characters; `Path.suffix` may be as long as the name


def is_leftover(name: str) -> bool:
    """Return whether this is the name of a temporary file of `atomic_write`, left by a killed process."""
    return name.startswith(".") and name.endswith(PART)


def remove_leftovers(folder: Path, suffixes: Collection[str]) -> None:
    """Remove temporary files with these suffixes and partly removed folders, at any depth, left by killed processes.

    No other process may be writing such files in `folder`.
    """
    for path in [path for path in folder.rglob(f".*{PART}") if is_leftover(path.name)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif Path(path.name.removesuffix(PART)).suffix in suffixes:
            path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder and its contents. If the process is killed meanwhile, a leftover remains."""
    away = folder.with_name(f".{folder.name}{PART}")
    shutil.rmtree(away, ignore_errors=True)  # of an earlier attempt
    folder.rename(away)
    shutil.rmtree(away)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` and rename it to `path` once it is complete and on disk.

    On any failure (an exception, a full disk, Ctrl-C), `path` stays unchanged and the temporary file is removed.
    An `OSError` is raised as an `EnergyAlignError` that names `path`. If `path` is a link, its target is replaced. A
    replaced file keeps its group and permissions.
    """
    with _explain_errors(path):
        _refuse_other_than_file(Path(path))
        target = Path(os.path.realpath(path))
        replaced = target.stat() if target.exists() else None
        old = None if replaced is None else stat.S_IMODE(replaced.st_mode)
        # Not derived from the name of the target, which may already have the maximum length.
        temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix[:_MAX_SUFFIX]}{PART}")
        text = "b" not in mode
        # Let the system apply the umask to a new file: it cannot be read without setting it.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else old)
        try:
            with os.fdopen(
                descriptor, mode, newline="\n" if text else None,
                encoding="utf-8" if text else None,
                errors="backslashreplace" if text else None,  # names of files and folders may be no valid text
            ) as stream:  # fmt: skip
                if replaced is not None:
                    _keep_access(temporary, replaced)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(target.parent)


def _keep_access(new: Path, old: os.stat_result) -> None:
    """Give a file the group and the permissions of the file it replaces.

    Where the group cannot be kept, its permissions are not given to another group.
    """
    mode, status = stat.S_IMODE(old.st_mode), new.stat()
    if status.st_gid != old.st_gid:
        try:
            os.chown(new, -1, old.st_gid)
        except OSError:
            mode &= ~stat.S_IRWXG
    if stat.S_IMODE(new.stat().st_mode) != mode:
        new.chmod(mode)


@contextlib.contextmanager
def _explain_errors(path: str | os.PathLike[str]) -> Iterator[None]:
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
    """Raise if an output cannot be written, or is the same file as an input or another output.

    None is ignored; ``-`` is standard input or output.
    """
    taken = {_identity(path, 0): f"the input {path}" for path in inputs if path is not None}
    for path in outputs:
        if path is None:
            continue
        if path != _DASH:
            refuse_unwritable(path)
        identity = _identity(path, 1)
        if identity in taken:
            raise EnergyAlignError(f"{path} is the same file as {taken[identity]}: choose another name for the output.")
        taken[identity] = f"the output {path}"


def _identity(path: str | os.PathLike[str], standard: int) -> object:
    """Return a key that is the same for all names of a file; ``-`` is the file descriptor `standard`.

    A file that does not exist yet is identified by its folder and its name, ignoring case as some file systems do.
    """
    with contextlib.suppress(OSError):
        status = os.stat(standard if path == _DASH else path)
        if stat.S_ISREG(status.st_mode) and status.st_ino:  # some file systems of Windows have no inode number
            return status.st_dev, status.st_ino
    if path == _DASH:
        return _DASH, standard
    folder, name = os.path.split(os.path.realpath(path))
    with contextlib.suppress(OSError):
        status = os.stat(folder)
        if status.st_ino:
            return status.st_dev, status.st_ino, unicodedata.normalize("NFC", name).casefold()
    return folder, name


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise if `path` cannot be written, so that a command fails before it starts to work."""
    with _explain_errors(path):
        _refuse_other_than_file(Path(path))
        target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
        folder = target.parent
        if not folder.is_dir():
            raise EnergyAlignError(f"cannot write {path}: there is no folder {folder}. Create it first.")
        if not os.access(folder, os.W_OK):
            raise EnergyAlignError(f"cannot write {path}: the folder {folder} is not writable.")


def _refuse_other_than_file(target: Path) -> None:
    if target.is_dir():
        raise EnergyAlignError(f"{target} is a directory: give the name of a file to write.")
    if target.exists() and not target.is_file():
        # Renaming over a device or a pipe would remove it.
        raise EnergyAlignError(f"{target} is not a regular file: give the name of a file to write.")


def _sync_directory(directory: Path) -> None:
    """Make the rename survive a power cut. Skipped on Windows, which cannot open a directory."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
