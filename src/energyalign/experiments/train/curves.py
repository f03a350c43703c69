"""Curves of a training: scalars for TensorBoard, Weights & Biases or MLflow, in a folder of the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol


class Curves(Protocol):
    """A tracker. Every process of a run begins anew, after those before; all may raise `OSError`."""

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One point of each of these curves."""

    def close(self) -> None:
        """No more points."""


class TensorBoard:
    """A new file of TensorBoard events in a folder, after those of earlier processes; may raise `OSError`.

    `torch.utils.tensorboard` writes from a thread of its own: a full disk then ends in a traceback that nobody catches.
    """

    def __init__(self, folder: Path, title: str) -> None:  # noqa: ARG002
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files in the order of their names: numbered, they do not depend on the clock.
        numbers = [path.name.split(".")[3] for path in folder.glob("events.out.tfevents.*")]
        number = 1 + max((int(name) for name in numbers if name.isdecimal()), default=0)
        self._stream = (folder / f"events.out.tfevents.{number:010d}").open("xb")
        self._writer = RecordWriter(self._stream)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One point of each of these curves."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def close(self) -> None:
        """No more points."""
        self._stream.close()

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
        self._stream.flush()


class WeightsAndBiases:
    """A run of Weights & Biases in the project energyalign; offline unless WANDB_MODE says otherwise."""

    def __init__(self, folder: Path, title: str) -> None:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        quiet = wandb.Settings(silent=True)
        self._run = wandb.init(
            project="energyalign", name=title, dir=folder, mode=mode, reinit="create_new", settings=quiet
        )

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One point of each of these curves."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """No more points."""
        self._run.finish()


class MLflow:
    """A run of MLflow in the experiment energyalign: in the folder unless MLFLOW_TRACKING_URI names a server."""

    def __init__(self, folder: Path, title: str) -> None:
        from mlflow.tracking import MlflowClient

        folder.mkdir(parents=True, exist_ok=True)
        self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve()}/mlflow.db")
        known = self._client.get_experiment_by_name("energyalign")
        experiment = known.experiment_id if known else self._client.create_experiment("energyalign")
        self._run = self._client.create_run(experiment, run_name=title).info.run_id

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One point of each of these curves."""
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        """No more points."""
        self._client.set_terminated(self._run)


DEFAULT_CURVES = "tensorboard"
CURVES: dict[str, Callable[[Path, str], Curves]] = {
    DEFAULT_CURVES: TensorBoard, "wandb": WeightsAndBiases, "mlflow": MLflow
}  # fmt: skip
