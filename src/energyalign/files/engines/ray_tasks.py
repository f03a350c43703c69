"""Engine that runs as tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

from threadpoolctl import threadpool_limits

from energyalign.core._engine.in_order import in_order
from energyalign.core._engine.parts import Stretch
from energyalign.core.errors import CannotGoOn, EnergyAlignError
from energyalign.files.engines.ray_cluster import join_cluster, leave_cluster

Result = TypeVar("Result")
_RETRIES = 3  # restarts of a task whose process or machine was lost


class RayTasks:
    """One Ray task per stretch. Every machine needs energyalign, and the files under the same paths.

    Parameters
    ----------
    address : str or None
        Address of the cluster; None starts one on this machine and stops it again.
    jobs : int or None
        Maximum number of tasks at a time.
    """

    def __init__(self, address: str | None, jobs: int | None) -> None:
        self._address = address
        self._jobs = jobs

    def __enter__(self) -> Self:
        join_cluster(self._address, cpus=self._jobs)
        import ray

        self._limits = threadpool_limits(limits=1, user_api="blas")
        self._task: Any = ray.remote(num_cpus=1, max_retries=_RETRIES)(_work_on)
        return self

    def __exit__(self, *_: object) -> None:
        self._limits.restore_original_limits()
        leave_cluster()

    def map(self, work: Callable[[Stretch], Result], stretches: Sequence[Stretch]) -> Iterator[Result]:
        """Yield the results in order. `work` is sent to each machine once."""
        import ray

        shared = ray.put(work)
        return in_order(
            stretches,
            self._jobs or 2 * max(1, int(ray.cluster_resources().get("CPU", 1))),
            submit=lambda stretch: self._task.remote(shared, stretch),
            collect=_collect,
            cancel=ray.cancel,
        )


def _work_on(work: Callable[[Stretch], Result], stretch: Stretch) -> Result | EnergyAlignError:
    """Return the result or an error about the files, which Ray would wrap if it were raised."""
    with threadpool_limits(limits=1, user_api="blas"):
        try:
            return work(stretch)
        except EnergyAlignError as error:
            return error


def _collect(task: Any) -> Any:
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        result = ray.get(task)
    except RayTaskError as error:
        raise CannotGoOn(
            f"a task of the Ray cluster failed ({str(error.cause).partition(chr(10))[0]}): every machine needs this "
            "version of energyalign, and the files under the same paths."
        ) from error
    except RayError as error:
        raise CannotGoOn(
            f"the Ray cluster lost a task ({str(error).partition(chr(10))[0]}): check that its machines are up and "
            "have free memory, and start again."
        ) from error
    if isinstance(result, EnergyAlignError):
        raise result
    return result
