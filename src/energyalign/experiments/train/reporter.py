"""What a person sees of a training: a live line in a terminal, plain lines elsewhere, curves for a tracker."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from energyalign.core._io.terminal import clean_console, showing
from energyalign.experiments.train.curves import CURVES, DEFAULT_CURVES, Curves

if TYPE_CHECKING:
    from energyalign.experiments.train.checkpoint import Position
    from energyalign.experiments.train.recipe import Recipe

_TICK = 1e-6  # seconds; a clock may show the same time twice


class Reporter:
    """Tells of a training on stderr, and in files of curves if a folder is given; this one is silent."""

    def note(self, message: str) -> None:
        """Something worth a line."""

    @contextlib.contextmanager
    def training(self, recipe: Recipe, n_batches: int, start: Position) -> Iterator[None]:  # noqa: ARG002
        """Around a training, which begins or goes on at `start`."""
        yield

    def stage(self, name: str) -> Reporter:  # noqa: ARG002
        """For another training of the same run, under this name."""
        return self

    def batch_done(self, position: Position, lr: float) -> None:
        """After each batch."""

    def epoch_done(self, position: Position, lr: float) -> None:
        """After each epoch."""


class Narrator(Reporter):
    """Speaks to a person: a bar that moves if someone watches, a line for each epoch if not.

    `scalars` is a folder for curves, written as `log` says, a name of `CURVES`; the bar appears only if `stream` is a
    terminal.
    """

    def __init__(
        self, title: str, scalars: Path | None = None, stream: TextIO | None = None, *, log: str = DEFAULT_CURVES
    ) -> None:
        self._title, self._scalars, self._log = title, scalars, log
        self._stream = sys.stderr if stream is None else stream
        self._bar: Any = None
        self._task: Any = None
        self._curves: Curves | None = None
        self._pace: Pace  # from the beginning of `training` on

    def note(self, message: str) -> None:
        """A line of its own, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(message, markup=False)
        else:
            print(message, file=self._stream, flush=True)

    def stage(self, name: str) -> Narrator:
        """With curves of its own."""
        scalars = None if self._scalars is None else self._scalars / name
        return Narrator(f"{self._title} {name}", scalars, self._stream, log=self._log)

    @contextlib.contextmanager
    def training(self, recipe: Recipe, n_batches: int, start: Position) -> Iterator[None]:
        """Show the bar and start the clock."""
        self._pace = Pace(recipe.epochs, n_batches, start)
        with contextlib.ExitStack() as stack:
            if self._stream.isatty():
                self._bar = stack.enter_context(showing(_bar(self._stream)))
                total, done = recipe.epochs * n_batches, self._pace.batches_done
                self._task = self._bar.add_task(self._title, total=total, completed=done, what="")
                stack.callback(setattr, self, "_bar", None)
            stack.callback(self._close_curves)
            yield

    def batch_done(self, position: Position, lr: float) -> None:
        """Move the bar."""
        self._pace.batch_done(position)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._pace.batches_done, what=self._line(position, lr))

    def epoch_done(self, position: Position, lr: float) -> None:
        """A line where nobody watches a bar, and a point of each curve."""
        pace = self._pace
        if self._bar is None:
            left = "" if pace.seconds_left is None else f"  {timedelta(seconds=round(pace.seconds_left))} left"
            print(f"{self._title}: {self._line(position, lr)}{left}", file=self._stream, flush=True)
        if self._scalars is not None:
            self._write(self._scalars, position, lr, pace.speed)
        pace.epoch_done()

    def _line(self, position: Position, lr: float) -> str:
        pace = self._pace
        speed = "" if pace.speed is None else f"  {pace.speed:,.0f} images/s"
        return f"epoch {position.epoch}/{pace.n_epochs}  loss {position.mean_loss:.4f}  lr {lr:.5g}{speed}"

    def _write(self, scalars: Path, position: Position, lr: float, speed: float | None) -> None:
        values = {"loss": position.mean_loss, "lr": lr} | ({} if speed is None else {"images per second": speed})
        try:
            if self._curves is None:  # not sooner: a finished run that is started again has nothing to write
                self._curves = CURVES[self._log](scalars, self._title)
            self._curves.add(position.epoch, values)
        except OSError as error:
            # Curves are a comfort. What the run cannot do without is written elsewhere, and fails there if it must.
            self.note(f"Going on without curves: cannot write into {scalars}: {error.strerror or error}.")
            self._close_curves()
            self._scalars = None

    def _close_curves(self) -> None:
        if self._curves is not None:
            with contextlib.suppress(OSError):  # what could not be written has been told
                self._curves.close()
            self._curves = None


class Pace:
    """How fast a training of `n_epochs` of `n_batches` goes, and how long it will still take.

    The clock starts when this is made: what an earlier process did of the run took none of this one's time.
    """

    def __init__(self, n_epochs: int, n_batches: int, start: Position) -> None:
        self.n_epochs = n_epochs
        self.batches_done = self._first = (start.epoch - 1) * n_batches + start.batch
        self._n_batches = n_batches
        self._began = self._epoch_began = time.monotonic()
        self._seen_before = start.n_samples
        self.speed: float | None = None
        """Samples per second in this epoch so far; None before the first batch."""

    def batch_done(self, position: Position) -> None:
        """After each batch."""
        self.batches_done = (position.epoch - 1) * self._n_batches + position.batch
        elapsed = max(time.monotonic() - self._epoch_began, _TICK)
        self.speed = (position.n_samples - self._seen_before) / elapsed

    def epoch_done(self) -> None:
        """After each epoch."""
        self._epoch_began, self._seen_before = time.monotonic(), 0

    @property
    def seconds_left(self) -> float | None:
        """To the end of the run, at the pace since the clock started; None before the first batch."""
        done = self.batches_done - self._first
        if done == 0:
            return None
        return (time.monotonic() - self._began) / done * (self.n_epochs * self._n_batches - self.batches_done)


def _bar(stream: TextIO) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    title, news = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[what]}")
    columns = (title, BarColumn(), news, TimeRemainingColumn())
    return Progress(*columns, console=clean_console(stream), transient=True)
