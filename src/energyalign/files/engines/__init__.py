"""Ways to go through the parts of the evidence: in threads, in local processes, on a Ray cluster.

All give the same result to the bit: what is found in each part is merged in the order of the parts, and the cut into
parts depends on the files alone. Linear algebra has one thread in all of them, since its rounding depends on how many
it has; several parts at once take the place of more.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from energyalign.core._engine.parts import Engine
from energyalign.core.errors import EnergyAlignError

ENGINES = ("local", "ray")


def open_engine(name: str, *, jobs: int | None, address: str | None = None) -> AbstractContextManager[Engine]:
    """The engine for some jobs at once, on this machine or on the Ray cluster at the address.

    Parameters
    ----------
    name : {"local", "ray"}
    jobs : int or None
        On this machine, processes; 1 and None mean the threads of this one. On a cluster, parts that are worked on at
        once; None for as many as there is room for.
    address : str, optional
        Of a Ray cluster; without it one is started on this machine, and ended again.
    """
    if jobs is not None and jobs < 1:
        raise EnergyAlignError(f"--jobs is {jobs}; it must be at least 1.")
    if name == "ray":
        from energyalign.files.engines.ray_tasks import RayTasks

        return RayTasks(address, jobs)
    if address is not None:
        raise EnergyAlignError("--address is that of a Ray cluster: add --engine ray, or leave it out.")
    if jobs is None or jobs == 1:
        from energyalign.core._engine.threads import Threads

        return Threads()
    from energyalign.files.engines.processes import Processes

    return Processes(jobs)
