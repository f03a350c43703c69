"""Engines that work on the parts of the evidence: threads, local processes, or a Ray cluster.

All give bit-identical results: results are merged in the order of the parts, and the split into parts depends only on
the files. Linear algebra uses one thread in all of them, because its rounding depends on the number of threads; other
cores process other parts.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from energyalign.core._engine.parts import Engine
from energyalign.core.errors import EnergyAlignError

ENGINES = ("local", "ray")


def open_engine(name: str, *, jobs: int | None, address: str | None = None) -> AbstractContextManager[Engine]:
    """Return an engine on this machine or on a Ray cluster.

    Parameters
    ----------
    name : {"local", "ray"}
    jobs : int or None
        On this machine, the number of processes, with one thread each; None uses threads of this process. On a
        cluster, the maximum number of parts at a time; None is the number of CPUs.
    address : str, default=None
        Address of a Ray cluster; None starts one on this machine, and stops it again.
    """
    if jobs is not None and jobs < 1:
        raise EnergyAlignError(f"--jobs must be >= 1, got {jobs}.")
    if name == "ray":
        from energyalign.files.engines.ray_tasks import RayTasks

        return RayTasks(address, jobs)
    if address is not None:
        raise EnergyAlignError("--address needs --engine ray: add it, or leave --address out.")
    if jobs is None or jobs == 1:
        from energyalign.core._engine.threads import Threads

        return Threads(jobs)
    from energyalign.files.engines.processes import Processes

    return Processes(jobs)
