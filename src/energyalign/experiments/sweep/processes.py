"""Runs as processes of this machine. As a program, this module runs one of them."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from energyalign.core._io.signals import STOP_SIGNALS
from energyalign.core.errors import EnergyAlignError, TryAgain


class Outcome(NamedTuple):
    """How a process ended."""

    code: int | None  # None if it was lost: killed, or its machine is gone. It can resume from its checkpoint.
    reason: str = ""  # why it was lost or failed, if its log does not say


class Started(Protocol):
    """A process that was started, here or on another machine."""

    def outcome(self) -> Outcome | None:
        """Return how the process ended, or None if it has not."""

    def stop(self) -> None:
        """Ask the process to save and end."""


class SweepEngine(Protocol):
    """Runs the processes of a sweep, on this machine or on a cluster."""

    @property
    def jobs(self) -> int:
        """How many processes fit at this moment: machines may join or leave a cluster."""

    def start(self, program: Sequence[str], log: Path) -> Started:
        """Start a program whose output is appended to the log."""


class LocalEngine:
    """Engine of this machine: up to `jobs` processes, each with `cpus` threads and `gpus` GPUs (0: the run chooses).

    The number of threads is fixed: results may depend on it in their last bits, and must not depend on `jobs`.
    """

    def __init__(self, jobs: int, *, cpus: int = 1, gpus: int = 0) -> None:
        self.jobs = jobs
        self._environment = dict(os.environ) | threads(cpus)
        self._gpus = gpus
        self._free = list(range(jobs))

    def start(self, program: Sequence[str], log: Path) -> Started:
        """Start a program in the first free slot."""
        slot = self._free.pop(0)
        environment = self._environment | visible_gpus(slot, self._gpus)
        try:
            return _Slotted(slot, self._free, program, log, environment)
        except BaseException:
            self._free.insert(0, slot)
            raise


class TiedProcess:
    """``python -m MODULE ARGUMENT...`` in a session of its own: Ctrl-C reaches it only through this process.

    It ends with the process that started it: a run that outlives its sweep would keep its run directory locked when the
    sweep is resumed. So it runs through `main` below, and its standard input is a pipe that stays open as long as the
    starting process lives. `program` is a module and its arguments; its output is appended to the log.
    """

    def __init__(self, program: Sequence[str], log: Path, folder: Path, environment: Mapping[str, str]) -> None:
        if not hasattr(os, "killpg"):
            raise EnergyAlignError(
                "a sweep needs process groups, which Windows lacks: use Linux, macOS or WSL, or start the runs of the "
                "plan one by one."
            )
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as stream:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "energyalign.experiments.sweep.processes", *program],
                    cwd=folder, env=dict(environment), stdin=subprocess.PIPE, stdout=stream, stderr=stream,
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise EnergyAlignError(f"cannot start a run that writes to {log}: {error}.") from error

    def outcome(self) -> Outcome | None:
        code = self._process.poll()
        if code is None:
            return None
        if self._process.stdin is not None:
            self._process.stdin.close()
        if code == TryAgain.exit_code:  # a process that shares the run was killed, or another one has the lock
            return Outcome(None)
        number = -code if code < 0 else code - 128  # killed at once, or stopped and saved
        if code < 0 or number in STOP_SIGNALS:
            return Outcome(None, f"its process was ended by {_signal_name(number)}")
        return Outcome(code)

    def stop(self) -> None:
        self._process.terminate()


class _Slotted(TiedProcess):
    """A process that frees its slot when it has ended."""

    def __init__(self, slot: int, free: list[int], program: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        super().__init__(program, log, Path.cwd(), env)
        self._slot, self._free = slot, free

    def outcome(self) -> Outcome | None:
        outcome = super().outcome()
        if outcome is not None:
            self._free.append(self._slot)
            self._free.sort()
        return outcome


def threads(cpus: int) -> dict[str, str]:
    """Return the environment variables of a process with this number of threads."""
    return {"OMP_NUM_THREADS": str(cpus)}


def visible_gpus(slot: int, gpus: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables that give the process in this slot its share of our GPUs."""
    if gpus == 0:
        return {}
    own = range(slot * gpus, (slot + 1) * gpus)
    ours = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return {"CUDA_VISIBLE_DEVICES": ",".join(ours[i] if i < len(ours) else str(i) for i in own)}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _die_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)  # its own group: all processes that share the run


def main() -> None:
    """Run a module like ``python -m``, at most until the process that started this one ends."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
