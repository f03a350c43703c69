"""Runs as tasks of a Ray cluster, whose machines share the folder of the results."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from energyalign.core.errors import EnergyAlignError
from energyalign.files.engines.ray_cluster import join_cluster
from energyalign.sweep.engine import Outcome
from energyalign.sweep.local import threads
from energyalign.sweep.tied_process import TiedProcess

_LOOK_EVERY = 0.2  # seconds


class RayEngine:
    """One task for each process; Ray finds the machine that has room for it.

    A task that is lost with its machine is not repeated by Ray: the sweep starts it again itself, as it does with
    processes of this machine, and it goes on from its checkpoint.

    Parameters
    ----------
    address : str or None
        Of a cluster; None starts one on this machine, which ends with this process.
    jobs : int or None
        At most so many at once; None for as many as there is room for.
    cpus, gpus : int
        Resources of each.
    log : Path
        For what Ray has to say about its machines: it would print that between our results.
    """

    def __init__(
        self, address: str | None, *, jobs: int | None = None, cpus: int = 1, gpus: int = 0, log: Path
    ) -> None:
        self._open = contextlib.ExitStack()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(contextlib.redirect_stdout(self._open.enter_context(log.open("a", encoding="utf-8"))))
        try:
            join_cluster(address)
        except EnergyAlignError:
            self._open.close()
            raise
        self.jobs = jobs
        self._cpus = cpus
        self._task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0, max_calls=1)(_run_to_end)

    def start(self, program: Sequence[str], log: Path) -> _RayTask:
        """Hand it to Ray."""
        return _RayTask(self._task.remote(tuple(program), str(log), str(Path.cwd()), self._cpus))

    def close(self) -> None:
        """Leave the cluster, or end the one that was started."""
        ray.shutdown()
        self._open.close()


class _RayTask:
    def __init__(self, result: Any) -> None:
        self._result = result

    def outcome(self) -> Outcome | None:
        """How it ended, or None while it has not."""
        ended, _ = ray.wait([self._result], timeout=0)
        if not ended:
            return None
        try:
            return Outcome(*ray.get(self._result))
        except TaskCancelledError:
            return Outcome(None, "it was stopped before it began")
        except RayTaskError as error:  # of our own code, on the other machine
            raise EnergyAlignError(
                f"the cluster cannot run it: {_first_sentence(error.cause)}. Every machine of it needs energyalign, as "
                "it is here, and the folder that the sweep was started in."
            ) from error
        except RayError as error:
            return Outcome(None, _first_sentence(error))

    def stop(self) -> None:
        """Ask it to save and end."""
        ray.cancel(self._result, force=False)


def _first_sentence(error: Exception) -> str:
    """Ray's messages go on with advice for its developers."""
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")


def _run_to_end(program: Sequence[str], log: str, folder: str, cpus: int) -> tuple[int | None, str]:
    """What a worker does."""
    if not Path(folder).is_dir():
        raise EnergyAlignError(f"{folder} is not on {os.uname().nodename}")
    process = TiedProcess(program, Path(log), Path(folder), dict(os.environ) | threads(cpus))
    while (outcome := process.outcome()) is None:
        try:
            time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:  # so Ray tells that the task is cancelled
            process.stop()
    return outcome
