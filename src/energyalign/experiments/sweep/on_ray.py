"""Runs as tasks of a Ray cluster, whose machines share the folder of the results."""

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
    """One task for each process; Ray finds the machine that has room for it.

    A task that is lost with its machine is not repeated by Ray: the sweep starts it again itself, as it does with
    processes of this machine, and it goes on from its checkpoint.

    Without an address it starts a cluster on this machine, which ends with this process. Without a number of `jobs`
    there are as many at once as there is room for. A run has its `processes`, with so many `cpus` each, on one machine;
    `gpus` are those of a run, one for each process unless given if the cluster has any. What Ray has to say about its
    machines goes into the log: it would print that between our results.
    """

    def __init__(
        self, address: str | None, *, jobs: int | None, processes: int, cpus: int, gpus: int | None, log: Path
    ) -> None:
        self._open = contextlib.ExitStack()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(contextlib.redirect_stdout(self._open.enter_context(log.open("a", encoding="utf-8"))))
        try:
            join_cluster(address)
            self._most, self._threads = jobs, cpus
            has_gpus = any(there.get("GPU", 0) for there in _machines())
            self._needs = {"CPU": cpus * processes, "GPU": processes * has_gpus if gpus is None else gpus}
            self._refuse_what_nobody_has()
        except BaseException:
            self.close()
            raise
        import ray

        needs = {"num_cpus": self._needs["CPU"], "num_gpus": self._needs["GPU"]}
        self._task = ray.remote(**needs, max_retries=0, max_calls=1)(_run_to_end)

    @property
    def jobs(self) -> int:
        """Runs for which the machines that are up have room."""
        room = sum(_runs_on(there, self._needs) for there in _machines())
        return room if self._most is None else min(room, self._most)

    def start(self, program: Sequence[str], log: Path) -> _RayTask:
        """Hand it to Ray."""
        return _RayTask(self._task.remote(tuple(program), str(log), str(Path.cwd()), self._threads))

    def close(self) -> None:
        """Leave the cluster, or end the one that was started."""
        leave_cluster()
        self._open.close()

    def _refuse_what_nobody_has(self) -> None:
        """Ray would wait for it for ever."""
        if not any(_runs_on(there, self._needs) for there in _machines()):
            most = {what: max((there.get(what, 0) for there in _machines()), default=0) for what in self._needs}
            raise EnergyAlignError(
                f"a run needs {self._needs['CPU']} CPUs and {self._needs['GPU']} GPUs, and no machine of the cluster "
                f"has both: at most {most['CPU']:g} and {most['GPU']:g}. Give less (--cpus, --gpus, --devices)."
            )


def _machines() -> list[dict[str, float]]:
    """What each machine of the cluster has that is up."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _runs_on(there: Mapping[str, float], needs: Mapping[str, int]) -> int:
    return min(int(there.get(what, 0)) // number for what, number in needs.items() if number)


class _RayTask:
    def __init__(self, result: Any) -> None:
        self._result = result

    def outcome(self) -> Outcome | None:
        """How it ended, or None while it has not."""
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        ended, _ = ray.wait([self._result], timeout=0)
        if not ended:
            return None
        try:
            return Outcome(*ray.get(self._result))
        except TaskCancelledError:
            return Outcome(None, "it was stopped before it began")
        except RayTaskError as error:  # of our own code, on the other machine
            why = _first_sentence(error.cause)
            return Outcome(1, f"a machine cannot run it: {why}. Each needs energyalign and the folder of the sweep.")
        except RayError as error:
            return Outcome(None, _first_sentence(error))

    def stop(self) -> None:
        """Ask it to save and end."""
        import ray

        ray.cancel(self._result, force=False)


def _first_sentence(error: Exception) -> str:
    """Ray's messages go on with advice for its developers."""
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".")


def _run_to_end(program: Sequence[str], log: str, folder: str, cpus: int) -> tuple[int | None, str]:
    """What a worker does."""
    if not Path(folder).is_dir():
        raise EnergyAlignError(f"{folder} is not on {os.uname().nodename}")
    process = TiedProcess(program, Path(log), Path(folder), dict(os.environ) | threads(cpus))
    while True:
        try:
            outcome = process.outcome()
            if outcome is not None:
                return outcome
            time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:  # so Ray tells that the task is cancelled
            process.stop()
