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
        Why it was lost.
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
    jobs : int or None
        How many may be under way at once; None if the engine itself keeps those waiting that find no room.
    """

    jobs: int | None

    def start(self, program: Sequence[str], log: Path) -> Started:
        """Start it; what it prints is added to the log."""
