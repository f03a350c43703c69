"""The engine that the options of `energyalign sweep` ask for."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from energyalign.core.errors import EnergyAlignError


@contextlib.contextmanager
def chosen_engine(arguments: argparse.Namespace, out: Path) -> Iterator[Any]:
    """This machine or a cluster, with resources for each run."""
    for name in ("jobs", "cpus"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise EnergyAlignError(f"--{name} is {getattr(arguments, name)}; it must be at least 1.")
    for name in ("gpus", "retries"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 0:
            raise EnergyAlignError(f"--{name} is {getattr(arguments, name)}; it must be 0 or more.")
    if arguments.engine == "ray":
        from energyalign.sweep.on_ray import RayEngine

        on_cluster = RayEngine(
            arguments.address, jobs=arguments.jobs, cpus=arguments.cpus, gpus=_gpus_per_run(arguments, _n_gpus()),
            log=out / "logs" / "ray.txt",
        )  # fmt: skip
        try:
            yield on_cluster
        finally:
            on_cluster.close()
        return
    if arguments.address is not None:
        raise EnergyAlignError("--address is that of a Ray cluster: add --engine ray, or leave it out.")
    from energyalign.sweep.local import LocalEngine

    there = _n_gpus()
    gpus = _gpus_per_run(arguments, there)
    if gpus > there:
        raise EnergyAlignError(f"--gpus {gpus} for each run, and this machine has {there}: give fewer.")
    jobs = arguments.jobs or (there // gpus if gpus else max(1, len(os.sched_getaffinity(0)) // arguments.cpus))
    if gpus and jobs * gpus > there:
        raise EnergyAlignError(f"{jobs} runs with {gpus} GPUs each need {jobs * gpus}, and there are {there}.")
    yield LocalEngine(jobs, cpus=arguments.cpus, gpus=gpus)


def _gpus_per_run(arguments: argparse.Namespace, there: int) -> int:
    if arguments.gpus is not None:
        return int(arguments.gpus)
    return 0 if arguments.accelerator == "cpu" or there == 0 else arguments.devices or 1


def _n_gpus() -> int:
    import torch

    return int(torch.cuda.device_count())
