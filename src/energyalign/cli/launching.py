"""Device, precision and processes of the runs of a command."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment

from energyalign.cli.ending import remember_started
from energyalign.cli.heap import keep_freed_memory
from energyalign.cli.process_counts import ProcessCounts
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.train.reporter import Narrator, Reporter


def make_fabric(accelerator: str, precision: Any, counts: ProcessCounts) -> Fabric:
    """Not launched yet: what can be refused by one process should be, before there are more."""
    several: dict[str, Any] = {"strategy": "ddp"} if counts.total > 1 else {}
    if several and not counts.started_by:
        several["plugins"] = (
            LightningEnvironment()
        )  # or Lightning waits for the tasks of a Slurm job to come by themselves
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is refused below
            fabric = Fabric(
                accelerator=accelerator, devices=counts.devices, num_nodes=counts.nodes, precision=precision, **several
            )
    except (ValueError, RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        number = f", --devices {counts.devices}" if counts.devices > 1 else ""
        raise EnergyAlignError(
            f"cannot train with --accelerator {accelerator}{number} and --precision {precision}: {reason}"
        ) from error
    if fabric.device.type == "cpu" and str(precision) in ("16", "16-mixed"):
        raise EnergyAlignError(f"--precision {precision} needs a GPU: choose bf16-mixed or 32-true.")  # or it is bf16
    if fabric.device.type == "cpu":
        keep_freed_memory()
    return fabric


def launch(fabric: Fabric, counts: ProcessCounts, given: Sequence[str]) -> None:
    """Start the other processes, unless somebody has; each runs the same command line up to here, and then goes on.

    Parameters
    ----------
    fabric : Fabric
    counts : ProcessCounts
    given : sequence of str
        The words of the command line. In a program that calls the command as a function they are not those of the
        process, which are the ones that would be run again.
    """
    if counts.total == 1:
        return
    if not counts.started_by and list(given) != sys.argv[1:]:
        raise EnergyAlignError(
            f"--devices {counts.devices}: more processes are started by running the command line again, and that of "
            "this program is another. Run `energyalign` itself."
        )
    for part in ("fabric", "pytorch"):  # a banner is no news
        logging.getLogger(f"lightning.{part}").setLevel(logging.WARNING)
    try:
        if os.environ.get("LT_CLI_USED") != "1":  # `fabric run`: then it was launched when it was made
            fabric.launch()
    except ValueError as error:
        raise EnergyAlignError(f"cannot start as {counts.started_by} says: {error}") from error
    remember_started(getattr(fabric.strategy.launcher, "procs", []))


def narrator(fabric: Fabric, title: str, scalars: Path | None = None) -> Reporter:
    """Of the processes, the first alone speaks. To be asked once they are launched."""
    return Narrator(title, scalars=scalars) if fabric.is_global_zero else Reporter()
