"""Run the missing runs of a sweep, as many at once as fit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from energyalign.core._io.signals import Interrupted, Interruption
from energyalign.core.errors import CannotGoOn
from energyalign.experiments.sweep.plan import PlannedRun
from energyalign.experiments.sweep.processes import Outcome, Started, SweepEngine
from energyalign.experiments.train.locking import HeldFolder
from energyalign.experiments.train.run_directory import RunDirectory

_LOOK_EVERY = 0.2  # seconds
_MAX_LOG_BYTES = 1 << 16  # of the end of a log


class Completion:
    """Completes the runs of a sweep.

    A run that fails is recorded with its error, and the others continue. A run whose process is lost (killed, or its
    machine is gone) is started again, up to `retries` times, and resumes from its checkpoint.

    Parameters
    ----------
    folder : Path
        Folder of the sweep, for its record and the logs.
    program : sequence of str
        A module with its first arguments, to which the command of a run is appended.
    watcher : callable
        Called with the state several times a second.
    delays : sequence of float, default (0.0, 30.0, 100.0)
        Seconds before the first retry, the second, and so on; the last one applies to all further retries. A machine
        that is gone may keep the lock of its run for a while: NFS needs a minute and a half to notice.
    """

    def __init__(
        self, folder: Path, runs: Sequence[PlannedRun], engine: SweepEngine, *, program: Sequence[str], retries: int,
        watcher: Callable[[SweepState], None], delays: Sequence[float] = (0.0, 30.0, 100.0),
    ) -> None:  # fmt: skip
        self._folder, self._engine, self._program, self._retries = folder, engine, tuple(program), retries
        self._watcher, self._delays = watcher, tuple(delays)
        self.state = SweepState(runs)
        self._record: dict[str, dict[str, Any]] = {
            run.name: {"command": run.command_line, "state": "waiting", "lost": []} for run in runs
        }
        self._started: dict[PlannedRun, Started] = {}
        self._log_starts: dict[PlannedRun, int] = {}
        self._not_before: dict[PlannedRun, float] = {}

    def finish(self) -> dict[str, str]:
        """Complete all runs; return the errors of failed runs, by name.

        Raises
        ------
        Interrupted
            On Ctrl-C or SIGTERM, after all running processes have saved and ended.
        CannotGoOn
            If the folder was moved or removed, also after that.
        """
        with contextlib.closing(HeldFolder(self._folder)) as self._held:
            return self._finish()

    def _finish(self) -> dict[str, str]:
        for run in self.state.waiting[:]:
            if run.is_done():
                self._end(run, "done")
        self._watcher(self.state)
        with Interruption() as interruption:
            while (self.state.waiting or self._started) and interruption.signal_number is None:
                self._refuse_moved()
                self._fill()
                for run, outcome in self._pop_ended():
                    self._handle(run, outcome)
                self._watcher(self.state)
                if self.state.waiting or self._started:
                    time.sleep(_LOOK_EVERY)
            if interruption.signal_number is not None:
                self._stop()
                raise Interrupted(interruption.signal_number)
        return {name: about["error"] for name, about in self._record.items() if about["state"] == "failed"}

    def _fill(self) -> None:
        jobs, now = self._engine.jobs, time.monotonic()
        for run in [run for run in self.state.waiting if self._not_before.get(run, now) <= now]:
            if len(self._started) >= jobs:
                break
            log = log_of(self._folder, run)
            self._log_starts[run] = log.stat().st_size if log.exists() else 0
            self._started[run] = self._engine.start((*self._program, *run.command), log)
            self.state.begin(run)
            self._note(run, state="running")

    def _pop_ended(self) -> Iterator[tuple[PlannedRun, Outcome]]:
        for run, process in list(self._started.items()):
            outcome = process.outcome()
            if outcome is not None:
                del self._started[run]
                yield run, outcome

    def _handle(self, run: PlannedRun, outcome: Outcome) -> None:
        if outcome.code == 0 and run.is_done():
            self._end(run, "done")
            return
        if outcome.code == 0:
            reason = f"it ended without an error, but {run.folder} lacks rows of this plan: the data may have changed"
        else:
            reason = outcome.reason or _read_error(log_of(self._folder, run), self._log_starts[run])
        if outcome.code is not None:
            self._end(run, "failed", error=reason)
            return
        losses = [*self._record[run.name]["lost"], reason]
        self._note(run, lost=losses)
        if len(losses) > self._retries:
            self._end(run, "failed", error=f"it was started {len(losses)} times; last: {reason}")
        else:
            self._not_before[run] = time.monotonic() + self._delays[min(len(losses), len(self._delays)) - 1]
            self.state.again(run, reason)

    def _end(self, run: PlannedRun, state: str, **about: str) -> None:
        self.state.end(run, failed=state == "failed")
        self._note(run, state=state, **about)

    def _refuse_moved(self) -> None:
        """Stop all processes and raise if the folder was moved or removed."""
        place = self._held.find()
        if place == self._folder:
            return
        self._stop()
        if place is None:
            raise CannotGoOn(f"{self._folder} was removed during the sweep. The same command starts it again.")
        back = f"move it back{' in place of what is there now' if self._folder.exists() else ''}"
        raise CannotGoOn(
            f"{self._folder} was moved to {place} during the sweep. Everything is saved there: {back}, and the same "
            "command completes it."
        )

    def _stop(self) -> None:
        """Stop all processes, and wait until they have saved and ended."""
        for process in self._started.values():
            process.stop()
        while self._started:
            for run, _ in self._pop_ended():
                self._note(run, state="stopped")
            self._watcher(self.state)
            time.sleep(_LOOK_EVERY)

    def _note(self, run: PlannedRun, **about: Any) -> None:
        """Record the state of a run in sweep.json: waiting, running, done, failed or stopped."""
        self._record[run.name] |= about
        folder = self._held.find()
        if folder is not None:
            RunDirectory(folder).write_json("sweep.json", {"runs": self._record})


class SweepState:
    """The runs that are waiting, running, done or failed. The clock of the estimate starts with the object.

    `skipped` are runs that were done before the sweep; `losses` are runs whose process was lost, with the reason.
    """

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self.waiting, self.n_runs = list(runs), len(runs)
        self.running: list[PlannedRun] = []
        self.done: list[PlannedRun] = []
        self.failed: list[PlannedRun] = []
        self.skipped: list[PlannedRun] = []
        self.losses: list[tuple[PlannedRun, str]] = []
        self._finished_here: list[PlannedRun] = []
        self._began = time.monotonic()

    def begin(self, run: PlannedRun) -> None:
        """Move a run from waiting to running."""
        self.waiting.remove(run)
        self.running.append(run)

    def again(self, run: PlannedRun, reason: str) -> None:
        """Put a run whose process was lost back at the front of the queue."""
        self.losses.append((run, reason))
        self.running.remove(run)
        self.waiting.insert(0, run)

    def end(self, run: PlannedRun, *, failed: bool) -> None:
        """Move a run to done or failed; a run that was not running was done before the sweep."""
        if run in self.running:
            self.running.remove(run)
            self._finished_here += [] if failed else [run]
        else:
            self.waiting.remove(run)
            self.skipped.append(run)
        (self.failed if failed else self.done).append(run)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end, with runs weighted by their estimated cost; None before the first has ended.

        Running runs count as if they had just started, so the estimate is too long rather than too short.
        """
        if not self._finished_here:
            return None
        left = [*self.running, *self.waiting]
        known = all(run.hours is not None for run in (*left, *self._finished_here))

        def weigh(runs: list[PlannedRun]) -> float:
            return sum(run.hours if known and run.hours else 1.0 for run in runs)

        return (time.monotonic() - self._began) / weigh(self._finished_here) * weigh(left)


def log_of(folder: Path, run: PlannedRun) -> Path:
    """Return the log file of a run."""
    return folder / "logs" / (run.name.replace("/", "--") + ".txt")


def _read_error(log: Path, start: int) -> str:
    """Return the last error in a log, or else its last line, from byte `start` on, where the process started."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(start, log.stat().st_size - _MAX_LOG_BYTES))
            lines = [line.strip() for line in stream.read().decode(errors="replace").split("\n") if line.strip()]
    except OSError:
        return f"it left no log at {log}"
    ours = [line for line in lines if line.startswith("energyalign: error: ")]
    return (ours or lines or ["it printed nothing"])[-1].removeprefix("energyalign: error: ")
