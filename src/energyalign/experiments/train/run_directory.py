"""A run directory: what was asked for, how far it is, what came out."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from energyalign.core._io.atomic import atomic_write, is_leftover, remove_leftovers
from energyalign.core._io.strict_json import parse_json, read_json_file, read_lines, read_text
from energyalign.core.errors import CannotGoOn, EnergyAlignError, TryAgain, some_of

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Json = dict[str, Any]

_COMMANDS = "commands.txt"
_CONFIG = "config.json"
_ENVIRONMENTS = "environments.json"
_LOCK = ".lock"
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
_WRITTEN_BY_RUNS = (".json", ".jsonl", ".safetensors", ".txt")


class HeldFolder:
    """A folder that is found again when it has another name: by a descriptor, where a system has them for folders."""

    def __init__(self, path: Path) -> None:
        self.path, self._identity, self._lock = path, _identity(path), _identity(path / _LOCK)
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # Windows has none, and lets nobody rename a folder with an open file
            self._descriptor = os.open(path, os.O_RDONLY)

    def close(self) -> None:
        """It is not looked for any more."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def where(self) -> Path | None:
        """Its path now; None if it was removed, or moved to where this system cannot say."""
        return next((place for place in self._places() if _identity(place) == self._identity), None)

    def is_locked(self) -> bool:
        """Whether its lock is the one that was there: who removes it lets another process in."""
        return _identity(self.path / _LOCK) == self._lock

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


class RunDirectory:
    """config.json, checkpoints/, rows.jsonl and whatever else belongs to one run.

    Use `open_run`, which also keeps other processes out.

    Of the ranks of a distributed run, only the first `writes`, and only it knows whether the run `was_there` before.
    """

    def __init__(
        self, path: Path, *, writes: bool = True, was_there: bool = False, config: Json | None = None,
        held: HeldFolder | None = None, within: RunDirectory | None = None,
    ) -> None:  # fmt: skip
        self.path, self.writes, self.was_there = path, writes, was_there
        self._config, self._held, self._within = config, held, within

    @property
    def config_sha256(self) -> str:
        """Of the settings, as the run was opened with, or of config.json, whatever the layout of the file."""
        return _sha256(self._config or self.read_json(_CONFIG) or {})

    @contextlib.contextmanager
    def saving(self, *, make_again: bool = False) -> Iterator[Path]:
        """Write inside, into the folder that this gives. If it is not as it was any more, the run stops after that.

        A folder that was moved is followed. One that was removed is made again, with its config, for who can
        `make_again` all that a run needs to go on; nobody else writes anything then.
        """
        place, problem = self._look(make_again=make_again)
        yield place
        if problem is not None:
            raise CannotGoOn(problem)

    def _look(self, *, make_again: bool) -> tuple[Path, str | None]:
        """Where the folder is, and what happened to it since the run was opened."""
        if self._held is None or self._config is None:
            return self.path, None
        place = self._held.where()
        if place is None:
            removed = f"{self.path} was removed while its run went on"
            if not make_again:
                raise CannotGoOn(f"{removed}: nothing of it is left. The same command starts it again.")
            self._make_again()
            return self.path, f"{removed}. It was made again with what was in memory: the same command goes on."
        if place != self.path:
            return place, (
                f"{self.path} was moved to {place} while its run went on. All is saved there: move it back, and the "
                "same command goes on."
            )
        return self.path, self._loss(self._config, is_locked=self._held.is_locked())

    def _loss(self, config: Json, *, is_locked: bool) -> str | None:
        """What happened to the files of a folder that is where it was."""
        known = self.read_json(_CONFIG)
        if known is None:
            _write_json(self.path / _CONFIG, config)
            lost = f"{self.path / _CONFIG} was removed while its run went on"
            return f"{lost}. It was written again: the same command goes on."
        if known != config:
            changes = "; ".join(_differences(known, config))
            return (
                f"{self.path / _CONFIG} was changed while its run went on: {changes}. Put it back, and the same "
                "command goes on."
            )
        if not is_locked:
            return (
                f"{self.path / _LOCK} was removed while its run went on, so that another process could come in. All is "
                "saved: when no other one is there, the same command goes on."
            )
        return None

    def _make_again(self) -> None:
        outer = self._within
        if outer is not None and outer._held is not None and outer._held.where() is None:
            outer._make_again()
        with locked(self.path):
            _claim(RunDirectory(self.path), self._config or {})

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    def write_json(self, name: str, value: Json) -> None:
        """Write a file that a person can read, atomically."""
        if self.writes:
            with self.saving() as folder:
                _write_json(folder / name, value)

    def read_json(self, name: str) -> Json | None:
        """The contents of such a file, or None if there is none."""
        path = self.path / name
        if not path.exists():
            return None
        try:
            value = read_json_file(path)
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"{path} cannot be read: {error}. Remove {self.path} to start again.") from error
        if not isinstance(value, dict):
            raise EnergyAlignError(f"{path} does not hold a JSON object. Remove {self.path} to start again.")
        return value

    def write_rows(self, rows: Sequence[Json]) -> None:
        """All result rows, one a line; the file is replaced as a whole."""
        if self.writes:
            with self.saving() as folder, atomic_write(folder / "rows.jsonl") as stream:
                stream.writelines(_text(row | {"sha256": _sha256(row)}) + "\n" for row in rows)

    def note_command(self, command: str) -> None:
        """Remember a command line that made some of what is here; each is kept once."""
        known = self.read_commands()
        if self.writes and command and command not in known:
            with self.saving() as folder, atomic_write(folder / _COMMANDS) as stream:
                stream.writelines(line + "\n" for line in (*known, command))

    def read_commands(self) -> list[str]:
        """The command lines so far, oldest first."""
        path = self.path / _COMMANDS
        try:
            return read_text(path).split("\n")[:-1] if path.exists() else []
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"{path} cannot be read: {error}. Remove it: only the record is lost.") from error

    def note_environment(self, here: Json) -> list[str]:
        """Remember in which environment the run goes on; says what is other than in the one before, if there is one."""
        known = self.read_environments()
        if known[-1:] == [here]:
            return []
        self.write_json(_ENVIRONMENTS, {"environments": [*known, here]})
        return _differences(known[-1], here) if known else []

    def read_environments(self) -> list[Json]:
        """The environments so far, oldest first."""
        found = (self.read_json(_ENVIRONMENTS) or {}).get("environments", [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise EnergyAlignError(f"{self.path / _ENVIRONMENTS} has no list of objects: remove it, and it is lost.")
        return found

    def read_rows(self) -> list[Json]:
        """The result rows so far."""
        path = self.path / "rows.jsonl"
        if not path.exists():
            return []
        try:
            lines = list(read_lines(path))
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"{path} cannot be read: {error}. Remove it to compute the rows again.") from error
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(parse_json(line))
            except ValueError as error:
                reason = getattr(error, "msg", error)  # without a line number of its own
                raise _bad_line(path, number, f"cannot be read: {reason}") from error
            if not isinstance(rows[-1], dict):
                raise _bad_line(path, number, "does not hold a JSON object")
        for number, row in enumerate(rows, 1):
            stated = row.pop("sha256", None)
            if stated is None:
                raise _bad_line(path, number, "has no hash, so energyalign did not write it")
            if stated != _sha256(row):
                problem = "was changed after it was written: it does not have the hash it states"
                raise _bad_line(path, number, problem)
        return rows


def _write_json(path: Path, value: Json) -> None:
    with atomic_write(path) as stream:
        stream.write(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def run_files(folders: Iterable[str]) -> Iterator[Path]:
    """All files of the runs in these folders, for which no output may be put."""
    for folder in folders:
        files = Path(folder).rglob("*")
        yield from (path for path in files if path.suffix in _WRITTEN_BY_RUNS or path.name == _LOCK)


def refuse_run_directory(out: Path) -> None:
    """Raise if a folder for runs, and what belongs to all of them, is that of a run, whose files they would replace."""
    if (out / _CONFIG).exists():
        raise EnergyAlignError(
            f"{out} is a run directory itself, and run directories go below --out: give the folder that it was made in."
        )


def _bad_line(path: Path, number: int, problem: str) -> EnergyAlignError:
    return EnergyAlignError(f"{path}, line {number}, {problem}. Remove the file to compute the rows again.")


@contextlib.contextmanager
def open_run(
    path: Path, config: Json, fabric: Fabric | None = None, *, within: RunDirectory | None = None
) -> Iterator[RunDirectory]:
    """A new run directory, or the one of an unfinished or finished run with the same config.

    While another process has it open it is refused. What a killed process left of files that it was writing is removed.
    One whose folder is moved or removed meanwhile ends with an error, also if nothing was left to do: see
    `RunDirectory.saving`. A stage of a run is opened `within` it.
    Of a run in several processes, with a launched `fabric`, the first rank takes the lock, checks and writes for all;
    the others wait until it has, and are refused if it is.
    """
    first = fabric is None or fabric.is_global_zero
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        was_there, held = False, None
        if first:
            try:
                if within is not None:
                    with within.saving():
                        pass  # or a folder that was moved would be made again by what is below it
                stack.enter_context(locked(path))
                was_there = _claim(RunDirectory(path), config)
                held = HeldFolder(path)
                stack.callback(held.close)
            except Exception as error:  # whatever it is, the others are waiting to hear of it
                problem = error
        message = None if problem is None else str(problem)
        if fabric is not None:
            message = fabric.broadcast(message)
        if problem is not None:
            raise problem
        if message is not None:
            raise EnergyAlignError(message)
        run = RunDirectory(path, writes=first, was_there=was_there, config=config, held=held, within=within)
        yield run
        with run.saving():
            pass


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if need be.

    The operating system holds the lock, so it dies with its holder. Forked processes, such as readers of images that
    outlive a killed holder, do not keep it.
    """
    # Without fallback_to_soft=False, a file system without locks would get a marker file that outlives its holder.
    lock = FileLock(path / _LOCK, blocking=False, fallback_to_soft=False)
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


def _claim(run: RunDirectory, config: Json) -> bool:
    """Write the config, or refuse a folder that is of another config or of something else; whether it was there."""
    known = run.read_json(_CONFIG)
    if known is None:
        _refuse_strangers(run.path)
    else:
        _refuse_other_settings(run.path, known, config)
    remove_leftovers(run.path, _WRITTEN_BY_RUNS)
    if known is None:
        run.write_json(_CONFIG, config)
    return known is not None


def _refuse_other_settings(path: Path, known: Json, wanted: Json) -> None:
    if known != wanted:
        raise EnergyAlignError(
            f"{path} holds a run with another config: {'; '.join(_differences(known, wanted))}. Give another --out, "
            "or the same settings and version of energyalign to go on with it."
        )


def _refuse_strangers(path: Path) -> None:
    """A folder with other things in it is not ours to write into."""
    others = sorted(entry.name for entry in path.iterdir() if entry.name != _LOCK and not is_leftover(entry.name))
    if others:
        raise EnergyAlignError(
            f"{path} is not a run directory and is not empty ({some_of(others)}): give another --out."
        )


def _differences(known: Json, wanted: Json, prefix: str = "") -> list[str]:
    """Which settings differ, for example ``seed is 0 there and 1 here``; one that is left out is ``not set``."""
    found = []
    for key in sorted(known.keys() | wanted.keys()):
        there, here = known.get(key), wanted.get(key)
        if isinstance(there, dict) and isinstance(here, dict):
            found += _differences(there, here, f"{prefix}{key}.")
        elif there != here or (key in known) != (key in wanted):
            told = [json.dumps(side[key]) if key in side else "not set" for side in (known, wanted)]
            found.append(f"{prefix}{key} is {told[0]} there and {told[1]} here")
    return found


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _sha256(value: Json) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
