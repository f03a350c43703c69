"""The engine that the options of `energyalign sweep` ask for."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from energyalign.core.errors import EnergyAlignError

if TYPE_CHECKING:
    from energyalign.experiments.sweep.processes import LocalEngine


@contextlib.contextmanager
def chosen_engine(arguments: argparse.Namespace, out: Path) -> Iterator[Any]:
    """This machine or a cluster, with resources for each run."""
    for name in ("jobs", "cpus", "devices"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise EnergyAlignError(f"--{name} is {getattr(arguments, name)}; it must be at least 1.")
    for name in ("gpus", "retries"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 0:
            raise EnergyAlignError(f"--{name} is {getattr(arguments, name)}; it must be 0 or more.")
    processes = 1 if arguments.devices is None else arguments.devices
    if arguments.engine == "ray":
        from energyalign.experiments.sweep.on_ray import RayEngine

        on_cluster = RayEngine(
            arguments.address, jobs=arguments.jobs, processes=processes, cpus=arguments.cpus,
            gpus=0 if arguments.accelerator == "cpu" else arguments.gpus, log=out / "logs" / "ray.txt",
        )  # fmt: skip
        try:
            yield on_cluster
        finally:
            on_cluster.close()
    else:
        yield _local_engine(arguments, processes)


def _local_engine(arguments: argparse.Namespace, processes: int) -> LocalEngine:
    from energyalign.experiments.sweep.processes import LocalEngine

    if arguments.address is not None:
        raise EnergyAlignError("--address is that of a Ray cluster: add --engine ray, or leave it out.")
    there = 0 if arguments.accelerator == "cpu" else _n_gpus()
    gpus = (processes if there else 0) if arguments.gpus is None else arguments.gpus
    at_least = arguments.jobs or 1
    if gpus * at_least > there:
        raise EnergyAlignError(
            f"{at_least} runs at once with {gpus} GPUs each need {gpus * at_least}, and there are {there}: give fewer "
            "--jobs or --gpus."
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = arguments.jobs or (there // gpus if gpus else max(1, cores // (arguments.cpus * processes)))
    return LocalEngine(jobs, cpus=arguments.cpus, gpus=gpus)


def _n_gpus() -> int:
    import torch

    return int(torch.cuda.device_count())
