"""What became of each run of a sweep, in a file that is there to be read after a night."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from energyalign.experiments.sweep.planned_run import PlannedRun
from energyalign.experiments.train.run_directory import RunDirectory

NAME = "sweep.json"
_LAST_WORDS = 1 << 16  # bytes of a log


class SweepRecord:
    """``sweep.json``: the runs, which of them failed, and of what.

    Parameters
    ----------
    folder : Path
        Of the sweep.
    runs : sequence of PlannedRun
    """

    def __init__(self, folder: Path, runs: Sequence[PlannedRun]) -> None:
        self._folder = RunDirectory(folder)
        self._runs: dict[str, dict[str, Any]] = {
            run.name: {"command": run.command_line, "state": "waiting", "lost": []} for run in runs
        }

    def note(self, run: PlannedRun, state: str, **others: Any) -> None:
        """Remember the state of a run: waiting, running, done, failed or stopped."""
        self._runs[run.name] |= {"state": state, **others}
        self._write()

    def lost(self, run: PlannedRun, reason: str) -> int:
        """Remember that its process was lost; how often that has happened now."""
        losses: list[str] = self._runs[run.name]["lost"]
        losses.append(reason)
        self._write()
        return len(losses)

    def errors(self) -> dict[str, str]:
        """Of the runs that failed."""
        return {name: about["error"] for name, about in self._runs.items() if about["state"] == "failed"}

    def _write(self) -> None:
        self._folder.write_json(NAME, {"runs": self._runs})


def log_of(folder: Path, run: PlannedRun) -> Path:
    """Where a run's process writes what it has to say."""
    return folder / "logs" / (run.name.replace("/", "--") + ".txt")


def last_words(log: Path, start: int) -> str:
    """The error that a process ended with, as its log has it from byte `start` on, which is where it began."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(start, log.stat().st_size - _LAST_WORDS))
            said = [line.strip() for line in stream.read().decode(errors="replace").split("\n") if line.strip()]
    except OSError:
        return f"it left no log at {log}"
    ours = [line for line in said if line.startswith("energyalign: error: ")]
    return re.sub("^energyalign: error: ", "", (ours or said or ["it printed nothing"])[-1])
