"""Runs what is missing of a sweep, as many at once as there is room for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from energyalign.experiments.sweep.engine import Engine, Outcome, Started
from energyalign.experiments.sweep.planned_run import PlannedRun
from energyalign.experiments.sweep.record import SweepRecord, last_words, log_of
from energyalign.experiments.sweep.state import SweepState
from energyalign.experiments.train.interruption import Interrupted, Interruption

_LOOK_EVERY = 0.2  # seconds

Watcher = Callable[[SweepState], None]


class Completion:
    """Brings the runs of a sweep to their end.

    One that fails is recorded with its error, and the others go on. One whose process is lost (killed, or its machine
    is gone) is started again, and goes on from its checkpoint, up to `retries` times.

    Parameters
    ----------
    folder : Path
        Of the sweep, for its record and the logs.
    runs : sequence of PlannedRun
    engine : Engine
    program : sequence of str
        The module, with its first arguments, that takes the command of a run.
    retries : int
    delays : sequence of float
        Seconds before the first retry, the second, and so on; the last holds for all that follow. A machine that is
        gone may keep the lock of its run for a while: NFS takes a minute and a half to notice.
    watcher : callable
        Is shown the state several times a second.
    """

    def __init__(
        self, folder: Path, runs: Sequence[PlannedRun], engine: Engine, *, program: Sequence[str], retries: int,
        watcher: Watcher, delays: Sequence[float] = (0.0, 30.0, 100.0),
    ) -> None:  # fmt: skip
        self._folder, self._engine, self._program, self._retries = folder, engine, tuple(program), retries
        self._watcher, self._delays = watcher, tuple(delays)
        self.state = SweepState(runs)
        self.record = SweepRecord(folder, runs)
        self._started: dict[PlannedRun, Started] = {}
        self._log_starts: dict[PlannedRun, int] = {}
        self._not_before: dict[PlannedRun, float] = {}

    def finish(self) -> None:
        """Run all that is not done.

        Raises
        ------
        Interrupted
            On Ctrl-C or SIGTERM, once the processes that were under way have saved and ended.
        """
        for run in self.state.waiting[:]:
            if run.is_done():
                self._ended(run, "done")
        self._watcher(self.state)
        with Interruption() as interruption:
            while (self.state.waiting or self._started) and interruption.signal_number is None:
                self._fill()
                self._look()
                self._watcher(self.state)
                if self.state.waiting or self._started:
                    time.sleep(_LOOK_EVERY)
            if interruption.signal_number is not None:
                self._stop()
                raise Interrupted(interruption.signal_number)

    def _fill(self) -> None:
        jobs, now = self._engine.jobs, time.monotonic()
        for run in [run for run in self.state.waiting if self._not_before.get(run, now) <= now]:
            if len(self._started) >= jobs:
                break
            log = log_of(self._folder, run)
            self._log_starts[run] = log.stat().st_size if log.exists() else 0
            self._started[run] = self._engine.start((*self._program, *run.command), log)
            self.state.begin(run)
            self.record.note(run, "running")

    def _look(self) -> None:
        for run, process in list(self._started.items()):
            outcome = process.outcome()
            if outcome is not None:
                del self._started[run]
                self._judge(run, outcome)

    def _judge(self, run: PlannedRun, outcome: Outcome) -> None:
        if outcome.code == 0 and run.is_done():
            self._ended(run, "done")
            return
        reason = outcome.reason or last_words(log_of(self._folder, run), self._log_starts[run])
        if outcome.code is not None:
            self._ended(run, "failed", error=reason)
            return
        n_losses = self.record.lost(run, reason)
        if n_losses > self._retries:
            self._ended(run, "failed", error=f"it was begun {n_losses} times; last: {reason}")
        else:
            delay = self._delays[min(n_losses, len(self._delays)) - 1]
            self._not_before[run] = time.monotonic() + delay
            self.state.again(run, reason)

    def _ended(self, run: PlannedRun, state: str, **about: str) -> None:
        self.state.end(run, failed=state == "failed")
        self.record.note(run, state, **about)

    def _stop(self) -> None:
        """Have all save and end, and wait for it."""
        for process in self._started.values():
            process.stop()
        while self._started:
            for run, process in list(self._started.items()):
                if process.outcome() is not None:
                    del self._started[run]
                    self.record.note(run, "stopped")
            self._watcher(self.state)
            time.sleep(_LOOK_EVERY)
