"""The processes of one run: how many, how they are started, and how they end together."""

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
from energyalign.experiments.train.reporter import Narrator, Reporter
from energyalign.pytorch.ranks import AnotherRankFailed, AnotherRankLost, in_a_group

_LOOPBACK = "127.0.0.1"
PATIENCE = 60.0  # seconds; whoever has not come back from its work by then to find out is killed
_started: list[subprocess.Popen[bytes]] = []


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
    stores = [] if counts.started_by or counts.nodes > 1 or "LOCAL_RANK" in os.environ else [_meet_on_loopback()]
    for part in ("fabric", "pytorch"):  # a banner is no news
        logging.getLogger(f"lightning.{part}").setLevel(logging.WARNING)
    try:
        if os.environ.get("LT_CLI_USED") != "1":  # `fabric run`: then it was launched when it was made
            fabric.launch()
    except ValueError as error:
        raise EnergyAlignError(f"cannot start as {counts.started_by} says: {error}") from error
    remember_started(getattr(fabric.strategy.launcher, "procs", []), stores)


def _meet_on_loopback() -> dist.Store:
    """Let the processes of one machine meet where no other can listen or speak: PyTorch would listen on all interfaces.

    The store is there before the processes, as that of torchrun is, and they find it in the same way.
    """
    listener = socket.create_server((_LOOPBACK, 0))
    port = listener.getsockname()[1]
    store = dist.TCPStore(
        _LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )  # which owns the socket now
    interface = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    os.environ |= {
        "MASTER_ADDR": _LOOPBACK, "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
        "GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface,
    }  # fmt: skip
    return store


def narrator(fabric: Fabric, log: str, title: str, scalars: Path | None = None) -> Reporter:
    """Of the processes, the first alone speaks. To be asked once they are launched."""
    return Narrator(title, scalars, log=log) if fabric.is_global_zero else Reporter()


def remember_started(processes: list[subprocess.Popen[bytes]], stores: list[dist.Store]) -> None:
    """The processes that this one has started, and must not leave behind, and the stores that it made for them."""
    global _started  # noqa: PLW0603 - a process starts others once
    _started = processes
    # Stores are kept as well: they live in the first process, and the others look into them when that one has left.
    atexit.register(_outlive, list(processes), [_get_default_store(), *stores])


def is_first() -> bool:
    """Whether this process is the one that speaks for all."""
    return not in_a_group() or dist.get_rank() == 0


@contextlib.contextmanager
def ending_together() -> Iterator[None]:
    """Let all processes end if one does, each with the exit code of what ended the run; the first says what it was.

    A process that leaves writes down its exit code in the store that all of them share. Then it closes its connections,
    which wakes those that wait for it.
    """
    try:
        yield
    except BaseException as error:
        if not in_a_group():
            raise
        reason = _reason(error)
        rank, store = dist.get_rank(), _get_default_store()
        _Word(exit_code(reason), speaks=not isinstance(reason, AnotherRankFailed)).write(store, rank)
        _close()
        if rank > 0 and _is_said(reason, _Word.of(store, 0, PATIENCE)):
            raise SystemExit(exit_code(reason)) from error
        if reason is error:
            raise
        raise reason from error
    _close()


def exit_code(error: BaseException) -> int:
    """That of one process which ends with this error."""
    if isinstance(error, (Interrupted, KeyboardInterrupt)):
        return stop_code(error)
    return error.exit_code if isinstance(error, EnergyAlignError) else 1


class _Word(NamedTuple):
    """What a process leaves behind for the others."""

    code: int
    speaks: bool
    """Whether it tells people what it was, and not only that it was another process."""

    def write(self, store: dist.Store, rank: int) -> None:
        with contextlib.suppress(RuntimeError):  # of a first process that was killed, the store is gone with it
            store.set(_key(rank), f"{self.code} {int(self.speaks)}")

    @classmethod
    def of(cls, store: dist.Store, rank: int, patience: float = 0.0) -> _Word | None:
        """That of a process, which may have to find out first; None if it has left without a word."""
        end = time.monotonic() + patience
        with contextlib.suppress(RuntimeError):  # as above
            while not (known := store.check([_key(rank)])) and time.monotonic() < end:
                time.sleep(0.05)
            if known:
                code, speaks = store.get(_key(rank)).split()
                return cls(int(code), bool(int(speaks)))
        return None


def _key(rank: int) -> str:
    return f"energyalign/ended/{rank}"


def _reason(error: BaseException) -> BaseException:
    """What ended the run, if all that happened to this process is that another one has left."""
    if not (isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))):
        return error
    words = {rank: _Word.of(_get_default_store(), rank) for rank in range(dist.get_world_size())}
    codes = {rank: word.code for rank, word in words.items() if word is not None}
    if max(codes.values(), default=0) > 128:
        return Interrupted(max(codes.values()) - 128)
    who = f"process {min(codes)} of {len(words)} has" if codes else f"one of the {len(words)} processes of this run has"
    return (AnotherRankFailed if codes else AnotherRankLost)(
        f"{who} ended before its time: see its own message. What was done is kept; the same command goes on with it."
    )


def _is_said(reason: BaseException, first: _Word | None) -> bool:
    """Whether the first process says what this one would say, or something better."""
    return first is not None and (first.speaks or isinstance(reason, AnotherRankFailed))


def _close() -> None:
    """Leave the group."""
    _started.clear()  # Lightning, which watches the same list, would kill this process because one of them has ended
    if in_a_group() and dist.get_backend() == "gloo":  # it leaves by itself with NCCL, which may wait for the others
        dist.destroy_process_group()


def _outlive(processes: list[subprocess.Popen[bytes]], _stores: list[dist.Store]) -> None:
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
