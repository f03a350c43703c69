"""A run directory: the config of a run, its checkpoints, its rows, and a record of its commands and environments.

One process at a time may write into it (`open_run`). It notices if somebody moves, removes or changes the folder
during the run (`RunDirectory.saving`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyalign.core._io.atomic import atomic_write, is_leftover, remove_leftovers
from energyalign.core._io.strict_json import parse_json, read_json_file, read_lines, read_text
from energyalign.core.errors import CannotGoOn, EnergyAlignError, some_of
from energyalign.experiments.train.locking import LOCK, HeldFolder, locked

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Json = dict[str, Any]

_COMMANDS = "commands.txt"
_CONFIG = "config.json"
_ENVIRONMENTS = "environments.jsonl"
_ROWS = "rows.jsonl"
_EXTENSIONS = (".json", ".jsonl", ".safetensors", ".txt")


@contextlib.contextmanager
def open_run(
    path: Path, config: Json, fabric: Fabric | None = None, *, within: RunDirectory | None = None
) -> Iterator[RunDirectory]:
    """Create a run directory, or open the directory of an unfinished or finished run with the same config.

    Files that a killed process left half-written are removed.

    Parameters
    ----------
    path : Path
    config : dict
        The settings of the run, for config.json.
    fabric : Fabric, default None
        Launched, if several processes share the run. The first rank locks, checks and writes; the others wait for it.
    within : RunDirectory, default None
        The run that this stage belongs to.

    Raises
    ------
    EnergyAlignError
        If another process has the folder open, if it holds something else or a run with another config, or at the end
        if it was moved, removed or changed during the run.
    """
    first = fabric is None or fabric.is_global_zero
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        was_there, held = False, None
        if first:
            try:
                if within is not None:
                    with within.saving():
                        pass  # raise if the outer folder was moved: creating this one would create it again
                stack.enter_context(locked(path))
                was_there = _claim(RunDirectory(path), config)
                held = HeldFolder(path)
                stack.callback(held.close)
            except Exception as error:  # an error of any type: the other ranks wait for news of it
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
            pass  # raise if the folder was moved, removed or changed, even if nothing was left to write


class MovedWhileWriting(CannotGoOn):
    """The folder was moved or removed while a file was written into it; the file was not written."""


class RunDirectory:
    """The files of one run.

    Open it with `open_run` to write; reading needs no lock. Of the ranks of a distributed run only the first one
    `writes`, and only the first one knows whether the run `was_there` before.
    """

    def __init__(
        self, path: Path, *, writes: bool = True, was_there: bool = False, config: Json | None = None,
        held: HeldFolder | None = None, within: RunDirectory | None = None,
    ) -> None:  # fmt: skip
        self.path, self.writes, self.was_there = path, writes, was_there
        self._config, self._held, self._within = config, held, within

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def config_sha256(self) -> str:
        """Hash of the settings, whatever the layout of config.json."""
        return _sha256(self._config or self.read_json(_CONFIG) or {})

    @contextlib.contextmanager
    def saving(self, *, make_again: bool = False) -> Iterator[Path]:
        """Yield the folder to write into, then raise `CannotGoOn` if it was moved, removed or changed by others.

        A moved folder is found and written into. A removed folder is created again, with its config, only for a caller
        that sets `make_again` because it writes all that is needed to resume; other callers raise before writing.
        """
        folder, problem = self._inspect(make_again=make_again)
        try:
            yield folder
        except EnergyAlignError as error:
            if self._held is not None and problem is None and self._held.find() != folder:
                raise MovedWhileWriting(f"{self.path} was moved or removed during its run: {error}") from error
            raise
        if problem is not None:
            raise CannotGoOn(problem)

    def _inspect(self, *, make_again: bool) -> tuple[Path, str | None]:
        """Return where the folder is, and what happened to it since the run was opened."""
        config = self._config
        if self._held is None or config is None:
            return self.path, None
        place = self._held.find()
        if place is None:
            removed = f"{self.path} was removed during its run"
            if not make_again:
                raise CannotGoOn(f"{removed}: nothing is left of it. The same command starts it again.")
            self._make_again(config)
            return self.path, f"{removed}. It was created again from memory: the same command resumes it."
        if place != self.path:
            return place, (
                f"{self.path} was moved to {place} during its run. Everything is saved there: move it back, and the "
                "same command resumes it."
            )
        problem, known = None, None
        try:
            known = self.read_json(_CONFIG)
            what = "was removed during its run"
        except EnergyAlignError:
            with contextlib.suppress(OSError):  # writing it below says why
                os.replace(self.path / _CONFIG, self.path / f"{_CONFIG}.damaged")
            what = f"was damaged during its run, and is {_CONFIG}.damaged now"
        if known is None:
            _write_json(self.path / _CONFIG, config)
            problem = f"{self.path / _CONFIG} {what}. It was written again: the same command resumes it."
        elif known != config:
            problem = (
                f"{self.path / _CONFIG} was changed during its run: {'; '.join(_differences(known, config))}. Put it "
                "back, and the same command resumes it."
            )
        elif not self._held.is_locked():
            problem = (
                f"{self.path / LOCK} was removed during its run, so another process could have used the folder. "
                "Everything is saved: when no other process uses the folder, the same command resumes it."
            )
        return self.path, problem

    def _make_again(self, config: Json) -> None:
        outer = self._within
        if outer is not None and outer._held is not None and outer._held.find() is None:
            outer._make_again(outer._config or {})
        with locked(self.path):
            _claim(RunDirectory(self.path), config)

    def write_json(self, name: str, value: Json) -> None:
        """Write a JSON file for people to read, atomically."""
        if self.writes:
            with self.saving() as folder:
                _write_json(folder / name, value)

    def read_json(self, name: str) -> Json | None:
        """Read a JSON file of the run; return None if there is none."""
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
        """Replace all rows, atomically; each line has the hash of its row."""
        self._write_lines(_ROWS, rows)

    def read_rows(self) -> list[Json]:
        """Read the rows so far."""
        return self._read_lines(_ROWS, remedy="Remove the file to compute the rows again.")

    def note_command(self, command: str) -> None:
        """Add a command line to the record, unless it is there already."""
        known = self.read_commands()
        if self.writes and command and command not in known:
            with self.saving() as folder, atomic_write(folder / _COMMANDS) as stream:
                stream.writelines(line + "\n" for line in (*known, command))

    def read_commands(self) -> list[str]:
        """Read the command lines so far, oldest first."""
        path = self.path / _COMMANDS
        try:
            return read_text(path).split("\n")[:-1] if path.exists() else []
        except (OSError, ValueError) as error:
            raise EnergyAlignError(
                f"{path} cannot be read: {error}. Remove the file: only the record is lost."
            ) from error

    def note_environment(self, here: Json) -> list[str]:
        """Add the environment to the record if it differs from the last one, and return the differences."""
        known = self.read_environments()
        if known[-1:] == [here]:
            return []
        self._write_lines(_ENVIRONMENTS, [*known, here])
        return _differences(known[-1], here) if known else []

    def read_environments(self) -> list[Json]:
        """Read the environments so far, oldest first."""
        return self._read_lines(_ENVIRONMENTS, remedy="Remove the file: only the record is lost.")

    def _write_lines(self, name: str, values: Sequence[Json]) -> None:
        """Write one object a line with its hash, atomically."""
        if self.writes:
            with self.saving() as folder, atomic_write(folder / name) as stream:
                stream.writelines(_text(value | {"sha256": _sha256(value)}) + "\n" for value in values)

    def _read_lines(self, name: str, *, remedy: str) -> list[Json]:
        """Read a file of lines with hashes; return an empty list if there is none."""
        path = self.path / name
        if not path.exists():
            return []
        try:
            lines = list(read_lines(path))
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"{path} cannot be read: {error}. {remedy}") from error
        values = []
        for number, line in enumerate(lines, 1):
            try:
                values.append(_parse_line(line))
            except ValueError as error:
                raise EnergyAlignError(f"{path}, line {number}, {error}. {remedy}") from error
        return values


def run_files(folders: Iterable[str]) -> Iterator[Path]:
    """Yield all files of the runs in these folders, which no output may replace; not those of other kinds beside them.

    A page or table may be in a run directory or among them, where the same command replaces it.
    """
    for folder in map(Path, folders):
        yield from folder.rglob("sweep.json")
        for run in {path.parent for name in (_CONFIG, _ROWS) for path in folder.rglob(name)}:
            for path in run.rglob("*"):
                if path.parent != run or path.suffix in _EXTENSIONS or path.name == LOCK:
                    yield path


def refuse_run_directory(out: Path) -> None:
    """Raise if a folder that is to hold run directories is a run directory itself."""
    if (out / _CONFIG).exists():
        raise EnergyAlignError(
            f"{out} is a run directory itself, and run directories go below --out: give the folder that it was made in."
        )


def _claim(run: RunDirectory, config: Json) -> bool:
    """Write the config, or raise if the folder has another config or other files; return whether it was there."""
    known = run.read_json(_CONFIG)
    if known is None:
        names = (entry.name for entry in run.path.iterdir())
        others = sorted(name for name in names if name != LOCK and not is_leftover(name))
        if others:
            raise EnergyAlignError(
                f"{run.path} is not a run directory and is not empty ({some_of(others)}): give another --out."
            )
    elif known != config:
        raise EnergyAlignError(
            f"{run.path} holds a run with another config: {'; '.join(_differences(known, config))}. Give another "
            "--out, or the same settings and version of energyalign to resume it."
        )
    remove_leftovers(run.path, _EXTENSIONS)
    if known is None:
        run.write_json(_CONFIG, config)
    return known is not None


def _differences(known: Json, wanted: Json, prefix: str = "") -> list[str]:
    """List the settings that differ, such as ``seed is 0 there and 1 here``; a missing setting is ``not set``."""
    differences = []
    for key in sorted(known.keys() | wanted.keys()):
        there, here = known.get(key), wanted.get(key)
        if isinstance(there, dict) and isinstance(here, dict):
            differences += _differences(there, here, f"{prefix}{key}.")
        elif there != here or (key in known) != (key in wanted):
            values = [json.dumps(side[key]) if key in side else "not set" for side in (known, wanted)]
            differences.append(f"{prefix}{key} is {values[0]} there and {values[1]} here")
    return differences


def _parse_line(line: str) -> Json:
    """Return the object of a line without its hash; raise ValueError if the line or its hash is wrong."""
    try:
        value = parse_json(line)
    except ValueError as error:
        reason = getattr(error, "msg", error)  # without the line number of JSONDecodeError, which is always 1
        raise ValueError(f"cannot be read: {reason}") from error
    if not isinstance(value, dict):
        raise ValueError("does not hold a JSON object")
    stated = value.pop("sha256", None)
    if stated is None:
        raise ValueError("has no hash, so energyalign did not write it")
    if stated != _sha256(value):
        raise ValueError("was changed after it was written: its hash does not match")
    return value


def _write_json(path: Path, value: Json) -> None:
    with atomic_write(path) as stream:
        stream.write(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _sha256(value: Json) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
