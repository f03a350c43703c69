"""What a person sees of a training: a live line in a terminal, plain lines elsewhere, scalars for TensorBoard."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from energyalign.train.position import Position
from energyalign.train.recipe import Recipe


class Reporter:
    """Tells of a training on stderr, and in TensorBoard files if a folder is given; this one is silent."""

    def note(self, message: str) -> None:
        """Something worth a line."""

    @contextlib.contextmanager
    def training(self, recipe: Recipe, n_batches: int) -> Iterator[None]:  # noqa: ARG002
        """Around a training."""
        yield

    def batch_done(self, position: Position, lr: float) -> None:
        """After each batch."""

    def epoch_done(self, position: Position, lr: float) -> None:
        """After each epoch."""


class Narrator(Reporter):
    """Speaks to a person: a bar that moves if someone watches, a line for each epoch if not.

    Parameters
    ----------
    title : str
        What is being trained.
    scalars : Path, optional
        Folder for TensorBoard files.
    stream : file
        Where to write; the bar appears only if it is a terminal.
    """

    def __init__(self, title: str, scalars: Path | None = None, stream: TextIO | None = None) -> None:
        self._title, self._scalars = title, scalars
        self._stream = sys.stderr if stream is None else stream
        self._bar: Any = None
        self._task: Any = None
        self._writer: Any = None
        self._recipe: Recipe | None = None
        self._n_batches = 0
        self._started: tuple[float, int] | None = None
        self._speed = float("nan")

    def note(self, message: str) -> None:
        """A line of its own, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(message, highlight=False)
        else:
            print(message, file=self._stream, flush=True)

    @contextlib.contextmanager
    def training(self, recipe: Recipe, n_batches: int) -> Iterator[None]:
        """Show the bar and open the TensorBoard file."""
        self._recipe, self._n_batches, self._started = recipe, n_batches, None
        with contextlib.ExitStack() as stack:
            if self._stream.isatty():
                self._bar = stack.enter_context(_bar(self._stream))
                self._task = self._bar.add_task(self._title, total=recipe.epochs * n_batches, what="")
                stack.callback(setattr, self, "_bar", None)
            if self._scalars is not None:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(str(self._scalars))
                stack.callback(self._writer.close)
            yield

    def batch_done(self, position: Position, lr: float) -> None:
        """Move the bar."""
        now = time.monotonic()
        if self._started is None:
            self._started = (now, position.n_samples)
        elif now > self._started[0]:
            self._speed = (position.n_samples - self._started[1]) / (now - self._started[0])
        if self._bar is not None:
            done = (position.epoch - 1) * self._n_batches + position.batch
            self._bar.update(self._task, completed=done, what=self._line(position, lr))

    def epoch_done(self, position: Position, lr: float) -> None:
        """A line where nobody watches a bar, and a point of each curve."""
        if self._bar is None:
            print(f"{self._title}: {self._line(position, lr)}", file=self._stream, flush=True)
        if self._writer is not None:
            for name, value in (("loss", position.mean_loss), ("lr", lr), ("images per second", self._speed)):
                self._writer.add_scalar(name, value, position.epoch)
        self._started = None

    def _line(self, position: Position, lr: float) -> str:
        assert self._recipe is not None
        return (
            f"epoch {position.epoch}/{self._recipe.epochs}  loss {position.mean_loss:.4f}  lr {lr:.5g}  "
            f"{self._speed:,.0f} images/s"
        )


def _bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[what]}"), TimeRemainingColumn())
    return Progress(*columns, console=Console(file=stream), transient=True)
