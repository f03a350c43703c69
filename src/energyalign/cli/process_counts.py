"""How many processes a run has: as its options say, or as whoever started this process says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from energyalign.core.errors import EnergyAlignError


class ProcessCounts(NamedTuple):
    """Devices of each node, with a process each, and nodes; `started_by` is empty if this process starts the others."""

    devices: int = 1
    nodes: int = 1
    started_by: str = ""

    @property
    def total(self) -> int:
        """Of all nodes."""
        return self.devices * self.nodes


def process_counts(
    devices: int | None, nodes: int | None, environment: Mapping[str, str] = os.environ
) -> ProcessCounts:
    """What --devices and --nodes ask for, if it is no other than what there is already.

    Parameters
    ----------
    devices, nodes : int or None
        As given, or None.
    environment : mapping
        Where torchrun, `fabric run` and Slurm's srun leave word of the processes that they have started.
    """
    for name, number in (("--devices", devices), ("--nodes", nodes)):
        if number is not None and number < 1:
            raise EnergyAlignError(f"{name} {number}: it takes at least 1.")
    found = _started_processes(environment)
    if found is None:
        asked = ProcessCounts(devices or 1, nodes or 1)
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in environment]
        if asked.nodes > 1 and missing:
            raise EnergyAlignError(
                f"--nodes {asked.nodes}: {', '.join(missing)} must be set, so that nodes find each other. Start the "
                "command with torchrun or srun, which set them, and leave --devices and --nodes out."
            )
        return asked
    if (devices or found.devices, nodes or found.nodes) != (found.devices, found.nodes):
        raise EnergyAlignError(
            f"--devices {devices or found.devices} --nodes {nodes or found.nodes}: {found.started_by} has started "
            f"{found.devices} processes on each of {found.nodes} nodes. Leave --devices and --nodes out."
        )
    return found


def _started_processes(environment: Mapping[str, str]) -> ProcessCounts | None:
    if "TORCHELASTIC_RUN_ID" in environment:  # `fabric run` starts torchrun
        devices = int(environment["LOCAL_WORLD_SIZE"])
        return ProcessCounts(devices, int(environment["WORLD_SIZE"]) // devices, "torchrun")
    # Of a job with several tasks these are set as well in its script, where nothing has been started yet.
    tasks, nodes = (int(environment.get(f"SLURM_STEP_NUM_{what}", 1)) for what in ("TASKS", "NODES"))
    if tasks == 1:
        return None
    if tasks % nodes:
        raise EnergyAlignError(f"srun has started {tasks} tasks on {nodes} nodes: give it --ntasks-per-node.")
    return ProcessCounts(tasks // nodes, nodes, "srun")
