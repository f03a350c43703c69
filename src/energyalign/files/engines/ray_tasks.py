"""Parts of the evidence as tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

from threadpoolctl import threadpool_limits

from energyalign.core._engine.in_order import in_order
from energyalign.core._engine.parts import Stretch
from energyalign.core.errors import CannotGoOn, EnergyAlignError
from energyalign.files.engines.ray_cluster import join_cluster, leave_cluster

Result = TypeVar("Result")
_RETRIES = 3  # of a task whose process or machine was lost


class RayTasks:
    """One task for each part. Every machine must find energyalign, and the files under the same paths.

    Parameters
    ----------
    address : str or None
        Of a cluster; None starts one on this machine and ends it again.
    jobs : int or None
        At most so many at once.
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
        """Some at once; what is to be done goes to each machine once."""
        import ray

        sent = ray.put(work)
        at_once = self._jobs or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        return in_order(
            stretches,
            at_once,
            submit=lambda stretch: self._task.remote(sent, stretch),
            collect=_collect,
            cancel=ray.cancel,
        )


def _work_on(work: Callable[[Stretch], Result], stretch: Stretch) -> Result | EnergyAlignError:
    """The result, or the error that the files deserve: Ray would wrap it into one of its own."""
    with threadpool_limits(limits=1, user_api="blas"):
        try:
            return work(stretch)
        except EnergyAlignError as error:
            return error


def _collect(task: Any) -> Any:
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        found = ray.get(task)
    except RayTaskError as error:
        raise CannotGoOn(
            f"a task of the Ray cluster failed ({str(error.cause).partition(chr(10))[0]}): every machine of "
            "it needs this version of energyalign, and the files under the same paths."
        ) from error
    except RayError as error:
        raise CannotGoOn(
            f"the Ray cluster lost a task for good ({str(error).partition(chr(10))[0]}): see that its machines are up "
            "and have memory, and start again."
        ) from error
    if isinstance(found, EnergyAlignError):
        raise found
    return found
