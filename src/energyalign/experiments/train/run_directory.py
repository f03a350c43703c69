"""A run directory: what was asked for, how far it is, what came out."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyalign.core._io.atomic import atomic_write, is_leftover, remove_leftovers
from energyalign.core._io.limited_text import read_lines, read_text
from energyalign.core._io.strict_json import parse_json, read_json_file
from energyalign.core.errors import EnergyAlignError, some_of
from energyalign.experiments.train.lock import locked

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Json = dict[str, Any]

_COMMANDS = "commands.txt"
_CONFIG = "config.json"
_WRITTEN_BY_RUNS = (".json", ".jsonl", ".safetensors", ".txt")


class RunDirectory:
    """config.json, checkpoints/, rows.jsonl and whatever else belongs to one run.

    Use `opened`, which also keeps other processes out.

    Parameters
    ----------
    path : Path
    writes : bool
        Whether `write_json` and `write_rows` write: of the ranks of a distributed run, the first alone does.
    was_there : bool
        Whether an earlier process began it; of the ranks, the first alone knows.
    """

    def __init__(self, path: Path, *, writes: bool = True, was_there: bool = False) -> None:
        self.path, self.writes, self.was_there = path, writes, was_there

    @property
    def config_sha256(self) -> str:
        """Of the settings in config.json, whatever the layout of the file."""
        return _sha256(self.read_json(_CONFIG) or {})

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    def write_json(self, name: str, value: Json) -> None:
        """Write a file that a person can read, atomically."""
        if not self.writes:
            return
        with atomic_write(self.path / name) as stream:
            stream.write(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")

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
        if not self.writes:
            return
        with atomic_write(self.path / "rows.jsonl") as stream:
            stream.writelines(_text(row | {"sha256": _sha256(row)}) + "\n" for row in rows)

    def note_command(self, command: str) -> None:
        """Remember a command line that made some of what is here; each is kept once."""
        known = self.read_commands()
        if self.writes and command and command not in known:
            with atomic_write(self.path / _COMMANDS) as stream:
                stream.writelines(line + "\n" for line in (*known, command))

    def read_commands(self) -> list[str]:
        """The command lines so far, oldest first."""
        path = self.path / _COMMANDS
        try:
            return read_text(path).split("\n")[:-1] if path.exists() else []
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"{path} cannot be read: {error}. Remove it: only the record is lost.") from error

    def read_rows(self) -> list[Json]:
        """The result rows so far."""
        path = self.path / "rows.jsonl"
        if not path.exists():
            return []
        try:
            rows = [self._row(path, number, line) for number, line in enumerate(read_lines(path), 1)]
        except EnergyAlignError:
            raise
        except (OSError, ValueError) as error:
            raise EnergyAlignError(f"{path} cannot be read: {error}. Remove it to compute the rows again.") from error
        for number, row in enumerate(rows, 1):
            stated = row.pop("sha256", None)
            if stated is None:
                raise EnergyAlignError(
                    f"{path}, line {number}, has no hash, so energyalign did not write it. Remove the file to compute "
                    "the rows again."
                )
            if stated != _sha256(row):
                raise EnergyAlignError(
                    f"{path}, line {number}, was changed after it was written: it does not have the hash it states. "
                    "Remove the file to compute the rows again."
                )
        return rows

    @staticmethod
    def _row(path: Path, number: int, line: str) -> Json:
        try:
            row = parse_json(line)
        except ValueError as error:
            reason = getattr(error, "msg", error)  # without a line number of its own
            raise EnergyAlignError(
                f"{path}, line {number}, cannot be read: {reason}. Remove the file to compute the rows again."
            ) from error
        if not isinstance(row, dict):
            raise EnergyAlignError(
                f"{path}, line {number}, does not hold a JSON object. Remove the file to compute the rows again."
            )
        return row


@contextlib.contextmanager
def opened(path: Path, config: Json, fabric: Fabric | None = None) -> Iterator[RunDirectory]:
    """A new run directory, or the one of an unfinished or finished run with the same config.

    Another process that has it open is refused, however that process ended before: the lock dies with its holder.
    What a killed process left of files that it was writing is removed.

    Parameters
    ----------
    path : Path
    config : dict
        What the run is of, as JSON.
    fabric : lightning_fabric.Fabric, optional
        Of a run in several processes, launched. The first rank takes the lock, checks and writes for all; the others
        wait until it has, and are refused if it is.
    """
    first = fabric is None or fabric.is_global_zero
    with contextlib.ExitStack() as stack:
        problem: Exception | None = None
        was_there = False
        if first:
            try:
                stack.enter_context(locked(path))
                was_there = _claim(RunDirectory(path), config)
            except Exception as error:  # whatever it is, the others are waiting to hear of it
                problem = error
        told = None if problem is None else str(problem)
        if fabric is not None:
            told = fabric.broadcast(told)
        if problem is not None:
            raise problem
        if told is not None:
            raise EnergyAlignError(told)
        yield RunDirectory(path, writes=first, was_there=was_there)


def _claim(run: RunDirectory, config: Json) -> bool:
    """Write the config, or refuse a folder that is of another config or of something else; whether it was there."""
    known = run.read_json(_CONFIG)
    if known is None:
        _refuse_strangers(run.path)
    else:
        _refuse_other_settings(run.path, {"compile": False, **known}, {"compile": False, **config})  # left out if false
    remove_leftovers(run.path, _WRITTEN_BY_RUNS)
    if known is None:
        run.write_json(_CONFIG, config)
    return known is not None


def _refuse_other_settings(path: Path, known: Json, wanted: Json) -> None:
    if unknown := _unknown(known, wanted):
        raise EnergyAlignError(
            f"{path} holds a run of another version of energyalign, with settings that this one does not have: "
            f"{some_of(unknown)}. Use that version, or give another --out."
        )
    if known != wanted:
        raise EnergyAlignError(
            f"{path} holds a run with another config: {_difference(known, wanted)}. Give another --out, or the same "
            "settings to go on with it."
        )


def _refuse_strangers(path: Path) -> None:
    """A folder with other things in it is not ours to write into."""
    others = sorted(entry.name for entry in path.iterdir() if entry.name != ".lock" and not is_leftover(entry.name))
    if others:
        raise EnergyAlignError(
            f"{path} is not a run directory and is not empty ({some_of(others)}): give another --out."
        )


def _unknown(known: Json, wanted: Json, prefix: str = "") -> list[str]:
    """Settings there of things that are here too, but without them."""
    if known.get("kind") != wanted.get("kind"):
        return []
    found = [prefix + key for key in sorted(known.keys() - wanted.keys())]
    for key in sorted(known.keys() & wanted.keys()):
        if isinstance(known[key], dict) and isinstance(wanted[key], dict):
            found += _unknown(known[key], wanted[key], f"{prefix}{key}.")
    return found


def _difference(known: Json, wanted: Json, prefix: str = "") -> str:
    """Which settings differ, for example ``seed is 0 there and 1 here``."""
    found = []
    for key in sorted(known.keys() | wanted.keys()):
        there, here = known.get(key), wanted.get(key)
        if isinstance(there, dict) and isinstance(here, dict):
            nested = _difference(there, here, f"{prefix}{key}.")
            found += [nested] if nested else []
        elif there != here:
            found.append(f"{prefix}{key} is {json.dumps(there)} there and {json.dumps(here)} here")
    return "; ".join(found)


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _sha256(value: Json) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
