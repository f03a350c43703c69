"""Curves for TensorBoard: a file of events, written at once and by this thread.

`torch.utils.tensorboard` writes from a thread of its own: there a full disk ends in a traceback that nobody can catch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Curves:
    """A new file of events in a folder, after those of earlier processes.

    Parameters
    ----------
    folder : Path
        Made if need be.

    Raises
    ------
    OSError
        Here and in `add`, as of any file.
    """

    def __init__(self, folder: Path) -> None:
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
