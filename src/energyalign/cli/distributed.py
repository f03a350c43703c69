"""Processes that share one run: count them, start them, and end all of them if one fails."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from torch.distributed.distributed_c10d import _get_default_store

from energyalign.cli.process import keep_freed_memory, stop_code
from energyalign.core._io.signals import Interrupted
from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.engine.experiment import refuse_other_settings
from energyalign.experiments.train.reporter import Narrator, Reporter
from energyalign.pytorch.ranks import AnotherRankFailed, AnotherRankLost, in_a_group

_LOOPBACK = "127.0.0.1"
_LOCAL_RANK, _STORE = "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE"  # set for the processes that this one starts
PATIENCE = 60.0  # seconds that a process gets to notice that the run has ended, before it is killed
_started: list[subprocess.Popen[bytes]] = []


class ProcessCounts(NamedTuple):
    """Numbers of devices per node (one process each) and of nodes.

    `started_by` names the launcher of the processes; it is empty if this process starts the others.
    """

    devices: int = 1
    nodes: int = 1
    started_by: str = ""

    @property
    def total(self) -> int:
        """Number of processes on all nodes."""
        return self.devices * self.nodes


def process_counts(
    devices: int | None, nodes: int | None, environment: Mapping[str, str] = os.environ
) -> ProcessCounts:
    """Return the counts of --devices and --nodes; raise if torchrun or srun has started the processes.

    Parameters
    ----------
    devices, nodes : int or None
        None if the option was not given.
    environment : mapping, default=os.environ
        Variables in which torchrun, `fabric run` and srun describe the processes that they have started.
    """
    for name, number in (("--devices", devices), ("--nodes", nodes)):
        if number is not None and number < 1:
            raise EnergyAlignError(f"{name} must be >= 1, got {number}.")
    started = _started_processes(environment)
    if started is None:
        counts = ProcessCounts(devices or 1, nodes or 1)
        if counts.devices > 1 and counts.nodes == 1 and _LOCAL_RANK in environment and _STORE not in environment:
            raise EnergyAlignError(
                f"{_LOCAL_RANK} is set, as by a launcher other than torchrun and srun: unset it, so that --devices "
                f"{counts.devices} can start the processes, or start them with torchrun."
            )
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in environment]
        if counts.nodes > 1 and missing:
            raise EnergyAlignError(
                f"--nodes {counts.nodes} needs {', '.join(missing)} in the environment, so that nodes find each other. "
                "Start the command with torchrun or srun, which set them, and leave --devices and --nodes out."
            )
        return counts
    if (devices or started.devices, nodes or started.nodes) != (started.devices, started.nodes):
        raise EnergyAlignError(
            f"--devices {devices or started.devices} --nodes {nodes or started.nodes}: {started.started_by} has "
            f"started {started.devices} processes on each of {started.nodes} nodes. Leave --devices and --nodes out."
        )
    return started


def _started_processes(environment: Mapping[str, str]) -> ProcessCounts | None:
    if "TORCHELASTIC_RUN_ID" in environment:  # `fabric run` starts torchrun
        devices = int(environment["LOCAL_WORLD_SIZE"])
        return ProcessCounts(devices, int(environment["WORLD_SIZE"]) // devices, "torchrun")
    # Not SLURM_NTASKS: that is also set in a job script, before srun has started any task.
    tasks, nodes = (int(environment.get(f"SLURM_STEP_NUM_{what}", 1)) for what in ("TASKS", "NODES"))
    if tasks == 1:
        return None
    if tasks % nodes:
        raise EnergyAlignError(f"srun has started {tasks} tasks on {nodes} nodes: give it --ntasks-per-node.")
    return ProcessCounts(tasks // nodes, nodes, "srun")


def make_fabric(accelerator: str, precision: Any, counts: ProcessCounts) -> Fabric:
    """Create a fabric without launching it, so that bad settings are refused before other processes start."""
    strategy = "ddp" if counts.total > 1 else "auto"
    refuse_other_settings(accelerator, precision, devices=counts.devices, nodes=counts.nodes, strategy=strategy)
    several: dict[str, Any] = {"strategy": "ddp"} if counts.total > 1 else {}
    if several and not counts.started_by:
        several["plugins"] = LightningEnvironment()  # otherwise Lightning waits for the other tasks of a Slurm job
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are errors below
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
        # Lightning would silently use bf16.
        raise EnergyAlignError(f"--precision {precision} needs a GPU: choose bf16-mixed or 32-true.")
    if fabric.device.type == "cpu":
        keep_freed_memory()
    return fabric


def launch(fabric: Fabric, counts: ProcessCounts, given: Sequence[str]) -> None:
    """Start the other processes, unless torchrun or srun has started them; each runs the same command line.

    Parameters
    ----------
    fabric : Fabric
    counts : ProcessCounts
    given : sequence of str
        The arguments of the command. They must be the command line of this process, which the other processes
        repeat; they differ if a program calls the command as a function.
    """
    if counts.total == 1:
        return
    if not counts.started_by and list(given) != sys.argv[1:]:
        raise EnergyAlignError(
            f"--devices {counts.devices} must run the same command line in other processes, but another program called "
            "this command: run `energyalign` itself."
        )
    stores = [] if counts.started_by or counts.nodes > 1 or _LOCAL_RANK in os.environ else [_meet_on_loopback()]
    for part in ("fabric", "pytorch"):  # hide the banner
        logging.getLogger(f"lightning.{part}").setLevel(logging.WARNING)
    try:
        if os.environ.get("LT_CLI_USED") != "1":  # under `fabric run` it is launched already
            fabric.launch()
    except ValueError as error:
        raise EnergyAlignError(f"cannot join the processes of {counts.started_by}: {error}") from error
    remember_started(getattr(fabric.strategy.launcher, "procs", []), stores)


def _meet_on_loopback() -> dist.Store:
    """Open a store on the loopback interface, where no other machine can connect; PyTorch would use all interfaces.

    As with torchrun, the store exists before the processes, and environment variables point to it.
    """
    listener = socket.create_server((_LOOPBACK, 0))
    port = listener.getsockname()[1]
    store = dist.TCPStore(  # it owns the socket from now on
        _LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    interface = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    os.environ |= {
        "MASTER_ADDR": _LOOPBACK, "MASTER_PORT": str(port),
        _STORE: "True", "TORCHELASTIC_RESTART_COUNT": "0",
        "GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface,
    }  # fmt: skip
    return store


def narrator(fabric: Fabric, log: str, title: str, scalars: Path | None = None) -> Reporter:
    """Return a reporter that prints in the first process only. Call this after `launch`."""
    return Narrator(title, scalars, log=log) if fabric.is_global_zero else Reporter()


def remember_started(processes: list[subprocess.Popen[bytes]], stores: list[dist.Store]) -> None:
    """At exit, wait for the processes that this one started, and keep the stores until they have ended."""
    global _started  # noqa: PLW0603 - a process starts others once
    _started = processes
    # The stores live in the first process, and the others read them after it has left its group.
    atexit.register(_wait_or_kill, list(processes), [_get_default_store(), *stores])


def is_first() -> bool:
    """Return whether this is the process that prints."""
    return not in_a_group() or dist.get_rank() == 0


@contextlib.contextmanager
def ending_together() -> Iterator[None]:
    """End all processes if one fails, each with the exit code of that failure; the first prints the error.

    A process that fails writes its exit code to the shared store. Then it closes its connections, which wakes the
    processes that wait for it.
    """
    try:
        yield
    except BaseException as error:
        if not in_a_group():
            raise
        reason = _reason(error)
        rank, store = dist.get_rank(), _get_default_store()
        _Ending(exit_code(reason), is_cause=not isinstance(reason, AnotherRankFailed)).write(store, rank)
        _close()
        first = _Ending.read(store, 0, PATIENCE) if rank > 0 else None
        if first is not None and (first.is_cause or isinstance(reason, AnotherRankFailed)):
            raise SystemExit(exit_code(reason)) from error  # the first process prints this error or its cause
        if reason is error:
            raise
        raise reason from error
    _close()


def exit_code(error: BaseException) -> int:
    """Return the exit code of a process that ends with this error."""
    if isinstance(error, (Interrupted, KeyboardInterrupt)):
        return stop_code(error)
    return error.exit_code if isinstance(error, EnergyAlignError) else 1


class _Ending(NamedTuple):
    """How a process ended; recorded in the shared store."""

    code: int
    is_cause: bool
    """Whether its own error ended the run, not the end of another process."""

    def write(self, store: dist.Store, rank: int) -> None:
        with contextlib.suppress(RuntimeError):  # the first process was killed, and its store with it
            store.set(_key(rank), f"{self.code} {int(self.is_cause)}")

    @classmethod
    def read(cls, store: dist.Store, rank: int, patience: float = 0.0) -> _Ending | None:
        """Wait up to `patience` seconds for the ending of a process; return None if it recorded none."""
        end = time.monotonic() + patience
        with contextlib.suppress(RuntimeError):  # the store is gone, as in `write`
            while not (known := store.check([_key(rank)])) and time.monotonic() < end:
                time.sleep(0.05)
            if known:
                code, is_cause = store.get(_key(rank)).split()
                return cls(int(code), bool(int(is_cause)))
        return None


def _key(rank: int) -> str:
    return f"energyalign/ended/{rank}"


def _reason(error: BaseException) -> BaseException:
    """Return the error that ended the run: `error` itself, unless it only says that another process has left."""
    if not (isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))):
        return error
    endings = [_Ending.read(_get_default_store(), rank) for rank in range(dist.get_world_size())]
    codes = {rank: ending.code for rank, ending in enumerate(endings) if ending is not None}
    if max(codes.values(), default=0) > 128:
        return Interrupted(max(codes.values()) - 128)
    who = f"process {min(codes)} of {len(endings)}" if codes else f"one of the {len(endings)} processes of this run"
    return (AnotherRankFailed if codes else AnotherRankLost)(
        f"{who} ended early: see its own message. Results so far are kept; run the same command to resume."
    )


def _close() -> None:
    """Leave the process group."""
    _started.clear()  # Lightning watches this list, and would kill this process when one of them ends
    if in_a_group() and dist.get_backend() == "gloo":  # NCCL may wait for the others, and closes at exit
        dist.destroy_process_group()


def _wait_or_kill(processes: list[subprocess.Popen[bytes]], _stores: list[dist.Store]) -> None:
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
