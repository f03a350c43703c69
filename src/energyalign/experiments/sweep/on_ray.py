"""Runs as tasks of a Ray cluster, whose machines share the folder of the sweep."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.sweep.processes import Outcome, TiedProcess, threads
from energyalign.files.engines.ray_cluster import join_cluster, leave_cluster

_LOOK_EVERY = 0.2  # seconds


class RayEngine:
    """Engine with one Ray task for each run; Ray finds a machine that has room for it.

    Ray does not retry a task that is lost with its machine: the sweep starts it again, and it resumes from its
    checkpoint.

    Parameters
    ----------
    address : str or None
        Address of the cluster; None starts one on this machine, which ends with this process.
    jobs : int or None
        Maximum number of runs at once; None for as many as fit.
    processes : int
        Processes of a run, all on one machine.
    cpus : int
        CPUs of each process.
    gpus : int or None
        GPUs of a run; None for one per process, if the cluster has any.
    log : Path
        File for Ray's messages, which it would print between our results.
    """

    def __init__(
        self, address: str | None, *, jobs: int | None, processes: int, cpus: int, gpus: int | None, log: Path
    ) -> None:
        self._open = contextlib.ExitStack()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(contextlib.redirect_stdout(self._open.enter_context(log.open("a", encoding="utf-8"))))
        try:
            join_cluster(address)
            self._max_jobs, self._threads = jobs, cpus
            has_gpus = any(machine.get("GPU", 0) for machine in _machines())
            self._needs = {"CPU": cpus * processes, "GPU": processes * has_gpus if gpus is None else gpus}
            self._refuse_impossible_needs()
        except BaseException:
            self.close()
            raise
        import ray

        needs = {"num_cpus": self._needs["CPU"], "num_gpus": self._needs["GPU"]}
        self._task = ray.remote(**needs, max_retries=0, max_calls=1)(_run_to_end)

    @property
    def jobs(self) -> int:
        """Number of runs for which the machines that are up have room."""
        room = sum(_count_runs(machine, self._needs) for machine in _machines())
        return room if self._max_jobs is None else min(room, self._max_jobs)

    def start(self, program: Sequence[str], log: Path) -> _RayTask:
        """Submit a program to Ray."""
        return _RayTask(self._task.remote(tuple(program), str(log), str(Path.cwd()), self._threads))

    def close(self) -> None:
        """Leave the cluster; stop it if it was started here."""
        leave_cluster()
        self._open.close()

    def _refuse_impossible_needs(self) -> None:
        """Raise if no machine has what a run needs: Ray would wait forever."""
        if not any(_count_runs(machine, self._needs) for machine in _machines()):
            most = {what: max((machine.get(what, 0) for machine in _machines()), default=0) for what in self._needs}
            raise EnergyAlignError(
                f"a run needs {self._needs['CPU']} CPUs and {self._needs['GPU']} GPUs, and no machine of the cluster "
                f"has both: at most {most['CPU']:g} and {most['GPU']:g}. Lower --cpus, --gpus or --devices."
            )


def _machines() -> list[dict[str, float]]:
    """Return the resources of each machine of the cluster that is up."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _count_runs(machine: Mapping[str, float], needs: Mapping[str, int]) -> int:
    return min(int(machine.get(what, 0)) // number for what, number in needs.items() if number)


class _RayTask:
    def __init__(self, result: Any) -> None:
        self._result = result

    def outcome(self) -> Outcome | None:
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        ended, _ = ray.wait([self._result], timeout=0)
        if not ended:
            return None
        try:
            return Outcome(*ray.get(self._result))
        except TaskCancelledError:
            return Outcome(None, "it was stopped before it started")
        except RayTaskError as error:  # raised by our own code on the other machine
            why = _first_sentence(error.cause)
            return Outcome(
                1, f"a machine cannot run it: {why}. Every machine needs energyalign and the folder of the sweep."
            )
        except RayError as error:
            return Outcome(None, _first_sentence(error))

    def stop(self) -> None:
        import ray

        ray.cancel(self._result, force=False)


def _first_sentence(error: Exception) -> str:
    """Cut Ray's message after the first sentence, before advice for its developers."""
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")


def _run_to_end(program: Sequence[str], log: str, folder: str, cpus: int) -> tuple[int | None, str]:
    """Run a program in a worker of Ray, to its end."""
    if not Path(folder).is_dir():
        raise EnergyAlignError(f"{folder} is not on {os.uname().nodename}")
    process = TiedProcess(program, Path(log), Path(folder), dict(os.environ) | threads(cpus))
    while True:
        try:
            outcome = process.outcome()
            if outcome is not None:
                return outcome
            time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:  # Ray cancels a task this way
            process.stop()
