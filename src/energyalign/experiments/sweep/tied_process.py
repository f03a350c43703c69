"""A process that ends with the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from energyalign.core.errors import EnergyAlignError, TryAgain
from energyalign.experiments.sweep.engine import Outcome


class TiedProcess:
    """``python -m MODULE ARGUMENT...`` in a session of its own, so that a terminal's Ctrl-C reaches it only through us.

    Parameters
    ----------
    program : sequence of str
        A module and its arguments.
    log : Path
        What it prints is added there.
    folder : Path
        Where it runs.
    environment : mapping
    """

    def __init__(self, program: Sequence[str], log: Path, folder: Path, environment: Mapping[str, str]) -> None:
        if not hasattr(os, "killpg"):
            raise EnergyAlignError(
                "a sweep needs process groups, which Windows does not have: use Linux, macOS or WSL, or start the runs "
                "of the plan one by one."
            )
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as stream:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "energyalign.experiments.sweep.tied", *program],
                    cwd=folder, env=dict(environment), stdin=subprocess.PIPE, stdout=stream, stderr=stream,
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise EnergyAlignError(f"cannot start a run that writes to {log}: {error}.") from error

    def outcome(self) -> Outcome | None:
        """How it ended, or None while it has not."""
        code = self._process.poll()
        if code is None:
            return None
        if self._process.stdin is not None:
            self._process.stdin.close()
        if code == TryAgain.exit_code:  # a process that shares the run was killed, or another one holds the folder
            return Outcome(None)
        number = -code if code < 0 else code - 128  # killed outright, or stopped and saved
        if code < 0 or number in (signal.SIGINT, signal.SIGTERM):
            return Outcome(None, f"its process was ended by {_named(number)}")
        return Outcome(code)

    def stop(self) -> None:
        """Ask it to save and end."""
        self._process.terminate()


def _named(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # those for real-time use have none
        return f"signal {number}"
