"""What runs the processes of a sweep: this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Outcome(NamedTuple):
    """How a process ended.

    Attributes
    ----------
    code : int or None
        Its exit code; None if it was lost: killed, or its machine is gone. It left a checkpoint, and can go on.
    reason : str
        Why it was lost or failed, if its log does not say.
    """

    code: int | None
    reason: str = ""


class Started(Protocol):
    """A process that was started, here or elsewhere."""

    def outcome(self) -> Outcome | None:
        """How it ended, or None while it has not."""

    def stop(self) -> None:
        """Ask it to save and end."""


class Engine(Protocol):
    """Starts processes.

    Attributes
    ----------
    jobs : int
        How many have room at once; on a cluster, whose machines come and go, at this moment.
    """

    @property
    def jobs(self) -> int: ...

    def start(self, program: Sequence[str], log: Path) -> Started:
        """Start it; what it prints is added to the log."""
