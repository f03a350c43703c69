"""Progress of a training: a bar in a terminal, plain lines elsewhere, curves for a tracker."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from energyalign.core._io.terminal import clean, clean_console, showing
from energyalign.core.errors import reason_of

if TYPE_CHECKING:
    from energyalign.experiments.train.checkpoint import Position
    from energyalign.experiments.train.recipe import Recipe

DEFAULT_CURVES = "tensorboard"
_TICK = 1e-6  # seconds; a clock may return the same time twice


class Reporter:
    """Base class of reporters. It reports nothing."""

    def note(self, message: str) -> None:
        """Report a message."""

    @contextlib.contextmanager
    def training(self, recipe: Recipe, n_batches: int, start: Position) -> Iterator[None]:  # noqa: ARG002
        """Enclose a training that starts or resumes at `start`."""
        yield

    def stage(self, name: str) -> Reporter:  # noqa: ARG002
        """Return the reporter of another training of the same run, under this name."""
        return self

    def batch_done(self, position: Position, lr: float) -> None:
        """Report a finished batch."""

    def epoch_done(self, position: Position, lr: float) -> None:
        """Report a finished epoch."""


class Narrator(Reporter):
    """Reporter for people: a progress bar if `stream` is a terminal (default: stderr), otherwise a line per epoch.

    `scalars` is the folder of the curves (default: no curves), and `log` their tracker, a name of `CURVES`.
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
        """Print a message, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(message, markup=False)
        else:
            print(clean(message), file=self._stream, flush=True)

    def stage(self, name: str) -> Narrator:
        """Return a narrator whose curves are in a folder of this name."""
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
            self._bar.update(self._task, completed=self._pace.batches_done, what=self._describe(position, lr))

    def epoch_done(self, position: Position, lr: float) -> None:
        """Print a line if there is no bar, and add a point to each curve."""
        pace = self._pace
        if self._bar is None:
            left = "" if pace.seconds_left is None else f"  {timedelta(seconds=round(pace.seconds_left))} left"
            self.note(f"{self._title}: {self._describe(position, lr)}{left}")
        if self._scalars is not None:
            self._write(self._scalars, position, lr, pace.speed)
        pace.epoch_done()

    def _describe(self, position: Position, lr: float) -> str:
        pace = self._pace
        speed = "" if pace.speed is None else f"  {pace.speed:,.0f} samples/s"
        return f"epoch {position.epoch}/{pace.n_epochs}  loss {position.mean_loss:.4f}  lr {lr:.5g}{speed}"

    def _write(self, scalars: Path, position: Position, lr: float, speed: float | None) -> None:
        values = {"loss": position.mean_loss, "lr": lr} | ({} if speed is None else {"images per second": speed})
        try:
            if self._curves is None:  # created on first use: a finished run that is started again has none to write
                self._curves = CURVES[self._log](scalars, self._title)
            self._curves.add(position.epoch, values)
        except ImportError:
            raise
        except Exception as error:  # trackers raise errors of many types, and a training does not need its curves
            reason = getattr(error, "strerror", None) or reason_of(error).rstrip(".")
            self.note(f"Continuing without curves: cannot write into {scalars}: {reason}.")
            self._close_curves()
            self._scalars = None

    def _close_curves(self) -> None:
        if self._curves is not None:
            with contextlib.suppress(Exception):  # reported already
                self._curves.close()
            self._curves = None


class Pace:
    """Speed of a training of `n_epochs` of `n_batches`, and the time that is left.

    The clock starts with the object, and counts only the batches since `start`, not batches of an earlier process.
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
        """Update the speed."""
        self.batches_done = (position.epoch - 1) * self._n_batches + position.batch
        elapsed = max(time.monotonic() - self._epoch_began, _TICK)
        self.speed = (position.n_samples - self._seen_before) / elapsed

    def epoch_done(self) -> None:
        """Restart the clock of the epoch."""
        self._epoch_began, self._seen_before = time.monotonic(), 0

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end of the training; None before the first batch."""
        done = self.batches_done - self._first
        if done == 0:
            return None
        return (time.monotonic() - self._began) / done * (self.n_epochs * self._n_batches - self.batches_done)


def _bar(stream: TextIO) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    title, state = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[what]}")
    columns = (title, BarColumn(), state, TimeRemainingColumn())
    return Progress(*columns, console=clean_console(stream), transient=True)


class Curves(Protocol):
    """A tracker of scalars. Each process of a run adds its own part. Methods may raise errors of any type."""

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each of these curves."""

    def close(self) -> None:
        """Finish the curves."""


class TensorBoard:
    """A TensorBoard event file, numbered after the files of earlier processes in the same folder.

    `torch.utils.tensorboard` would write in its own thread, where an error on a full disk could not be caught.
    """

    def __init__(self, folder: Path, title: str) -> None:  # noqa: ARG002
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads files in the order of their names, so number them: clocks may go backwards.
        numbers = [path.name.split(".")[3] for path in folder.glob("events.out.tfevents.*")]
        number = 1 + max((int(name) for name in numbers if name.isdecimal()), default=0)
        self._stream = (folder / f"events.out.tfevents.{number:010d}").open("xb")
        self._writer = RecordWriter(self._stream)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def close(self) -> None:
        self._stream.close()

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
        self._stream.flush()


class WeightsAndBiases:
    """A Weights & Biases run in the project energyalign, offline unless WANDB_MODE says otherwise."""

    def __init__(self, folder: Path, title: str) -> None:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        settings = wandb.Settings(mode=mode, silent=True, disable_git=True)
        folder = folder.resolve()
        with contextlib.chdir(folder):  # wandb reads settings below the current folder, which could name a server
            wandb.setup(settings)  # now, or it would send telemetry before `init` sets the mode
        self._run = wandb.init(project="energyalign", name=title, dir=folder, reinit="create_new", settings=settings)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """An MLflow run in the experiment energyalign, in the folder unless MLFLOW_TRACKING_URI names a server."""

    def __init__(self, folder: Path, title: str) -> None:
        server, path = os.environ.get("MLFLOW_TRACKING_URI"), folder.resolve()
        if not server and set("?#") & set(str(path)):  # MLflow would write beside the run directory
            raise ValueError(f"MLflow needs a path without ? and #, got {path}")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
        from mlflow.tracking import MlflowClient

        folder.mkdir(parents=True, exist_ok=True)
        self._client = MlflowClient(server or mlflow_store(path))
        known = self._client.get_experiment_by_name("energyalign")
        experiment = known.experiment_id if known else self._client.create_experiment("energyalign")
        self._run = self._client.create_run(experiment, run_name=title).info.run_id

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)


def mlflow_store(folder: Path) -> str:
    """Return the URI of a database in an absolute folder; of the folder for mlflow-skinny, which has no databases."""
    if importlib.util.find_spec("sqlalchemy"):
        return f"sqlite:///{folder}/mlflow.db"
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # or newer versions refuse to write files
    return folder.as_uri()


CURVES: dict[str, Callable[[Path, str], Curves]] = {
    DEFAULT_CURVES: TensorBoard, "wandb": WeightsAndBiases, "mlflow": MLflow
}  # fmt: skip
