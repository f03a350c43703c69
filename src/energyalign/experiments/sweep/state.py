"""How far a sweep is, and how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Sequence

from energyalign.experiments.sweep.planned_run import PlannedRun


class SweepState:
    """Which runs wait, run, are done or failed. The clock starts when this is made, and is one that only goes forward.

    Attributes
    ----------
    waiting, running, done, failed : list of PlannedRun
    skipped : list of PlannedRun
        Of those that are done, what had been before.
    losses : list of tuple
        Runs whose process was lost and that were put in line again, each with the reason.
    """

    def __init__(self, runs: Sequence[PlannedRun]) -> None:
        self.waiting = list(runs)
        self.running: list[PlannedRun] = []
        self.done: list[PlannedRun] = []
        self.failed: list[PlannedRun] = []
        self.skipped: list[PlannedRun] = []
        self.losses: list[tuple[PlannedRun, str]] = []
        self._finished_here: list[PlannedRun] = []
        self._began = time.monotonic()

    @property
    def n_runs(self) -> int:
        """All of them."""
        return len(self.waiting) + len(self.running) + len(self.done) + len(self.failed)

    def begin(self, run: PlannedRun) -> None:
        """Its process was started."""
        self.waiting.remove(run)
        self.running.append(run)

    def again(self, run: PlannedRun, reason: str) -> None:
        """Its process was lost: next in line."""
        self.losses.append((run, reason))
        self.running.remove(run)
        self.waiting.insert(0, run)

    def end(self, run: PlannedRun, *, failed: bool) -> None:
        """It is done, now or before this sweep began, or it failed."""
        if run in self.running:
            self.running.remove(run)
            self._finished_here += [] if failed else [run]
        else:
            self.waiting.remove(run)
            self.skipped.append(run)
        (self.failed if failed else self.done).append(run)

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far, each run weighing as much as it is guessed to cost; None before the first has ended.

        Runs under way count as if they had just begun, so that it errs on the long side.
        """
        if not self._finished_here:
            return None
        left = [*self.running, *self.waiting]
        weights = {run: run.hours for run in (*left, *self._finished_here)}
        known = None not in weights.values()
        pace = (time.monotonic() - self._began) / sum(_weight(weights[run], known) for run in self._finished_here)
        return pace * sum(_weight(weights[run], known) for run in left)


def _weight(hours: float | None, known: bool) -> float:
    return hours if known and hours else 1.0
