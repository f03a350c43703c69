"""Progress of a sweep: a live overview on a terminal, elsewhere a line for each event."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TextIO

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.row import Settings
from energyalign.experiments.engine.stored import StoredRun, read_rows
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.report.trainings import progress_of

if TYPE_CHECKING:
    from energyalign.experiments.sweep.complete import SweepState
    from energyalign.experiments.sweep.plan import PlannedRun

_REFRESH = 1.0  # seconds


class Overview:
    """Overview of a sweep: runs done, running and failed, and the time left; live if `stream` is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live: Any = None
        self._shown = contextlib.ExitStack()
        self._shown_at = -_REFRESH
        self._printed: set[tuple[str, str]] = set()
        self._skipped = False
        self._n_losses = 0

    def __enter__(self) -> Self:
        if self._stream.isatty():
            from rich.live import Live

            from energyalign.core._io.terminal import clean_console, showing

            live = Live(console=clean_console(self._stream), transient=True, auto_refresh=False)
            self._live = self._shown.enter_context(showing(live))
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.close()

    def show(self, state: SweepState) -> None:
        """Show what has changed since the last call."""
        if self._live is None:
            self._print_news(state)
        elif time.monotonic() - self._shown_at >= _REFRESH:
            self._live.update(_draw(state), refresh=True)
            self._shown_at = time.monotonic()

    def _print_news(self, state: SweepState) -> None:
        skipped = [] if self._skipped else state.skipped
        self._skipped = True
        if skipped:
            self._print(f"{len(skipped)} of {state.n_runs} runs were done before.")
        self._printed |= {("done", run.name) for run in skipped}
        for run, reason in state.losses[self._n_losses :]:
            self._print(f"{run.name}: {reason.rstrip('.')}. It restarts, from its last checkpoint if it has one.")
            self._printed.discard(("running", run.name))
        self._n_losses = len(state.losses)
        for word, runs in (("running", state.running), ("done", state.done), ("failed", state.failed)):
            for run in runs:
                if (word, run.name) not in self._printed:
                    self._printed.add((word, run.name))
                    self._print(f"{run.name}: {word}. {summary(state)}")

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def summary(state: SweepState) -> str:
    """Return, for example, ``3 of 12 done, 2 running, 1 failed, about 0:10:00 left``."""
    words = [f"{len(state.done)} of {state.n_runs} done", f"{len(state.running)} running"]
    words += [f"{len(state.failed)} failed"] if state.failed else []
    left = state.seconds_left
    words += [f"about {timedelta(seconds=round(left))} left"] if left else []
    return ", ".join(words)


def _draw(state: SweepState) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    lines = Table.grid()
    lines.add_row(Text(summary(state)))
    lines.add_row(ProgressBar(total=state.n_runs, completed=len(state.done) + len(state.failed), width=60))
    for run in state.running:
        lines.add_row(Text(f"  {run.name}: {_progress(run)}"))
    for run in state.failed:
        lines.add_row(Text(f"  {run.name}: failed", style="red"))
    return lines


def _progress(run: PlannedRun) -> str:
    directory = RunDirectory(run.folder)
    try:
        if directory.read_json("config.json") is None:
            return "starting"
        return progress_of(StoredRun(run.folder, Settings(run.config), read_rows(directory))) or "measuring"
    except EnergyAlignError:  # the run itself will raise it
        return ""
