"""Runs as processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from energyalign.experiments.sweep.engine import Outcome
from energyalign.experiments.sweep.tied_process import TiedProcess


class LocalEngine:
    """So many processes at once, each with threads and GPUs of its own.

    Parameters
    ----------
    jobs : int
    cpus : int
        Threads of each. They are fixed, because the bits of a result may depend on them, and must not on `jobs`.
    gpus : int
        Devices of each; 0 leaves the choice to the run.
    """

    def __init__(self, jobs: int, *, cpus: int = 1, gpus: int = 0) -> None:
        self.jobs = jobs
        self._environment = dict(os.environ) | threads(cpus)
        self._gpus = gpus
        self._free = list(range(jobs))

    def start(self, program: Sequence[str], log: Path) -> _Slotted:
        """Start it in the first free place."""
        slot = self._free.pop(0)
        environment = self._environment | visible_gpus(slot, self._gpus)
        try:
            return _Slotted(TiedProcess(program, log, Path.cwd(), environment), slot, self._free)
        except BaseException:
            self._free.insert(0, slot)
            raise


class _Slotted:
    """A process that gives its place back when it has ended."""

    def __init__(self, process: TiedProcess, slot: int, free: list[int]) -> None:
        self._process, self._slot, self._free = process, slot, free

    def outcome(self) -> Outcome | None:
        """How it ended, or None while it has not."""
        outcome = self._process.outcome()
        if outcome is not None:
            self._free.append(self._slot)
            self._free.sort()
        return outcome

    def stop(self) -> None:
        """Ask it to save and end."""
        self._process.stop()


def threads(cpus: int) -> dict[str, str]:
    """The environment of a process that shall use so many threads."""
    return {"OMP_NUM_THREADS": str(cpus)}


def visible_gpus(slot: int, gpus: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of the process in this place: of the GPUs that we were given, those that are its own."""
    if gpus == 0:
        return {}
    own = range(slot * gpus, (slot + 1) * gpus)
    ours = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return {"CUDA_VISIBLE_DEVICES": ",".join(ours[i] if i < len(ours) else str(i) for i in own)}
