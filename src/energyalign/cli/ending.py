"""How the processes of one run end together: all of them, soon, with one exit code, and one of them says why."""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.train.interruption import Interrupted
from energyalign.pytorch.ranks import AnotherRankFailed, AnotherRankLost, in_a_group

PATIENCE = 60.0  # seconds; whoever has not come back from its work by then to find out is killed

_started: list[subprocess.Popen[bytes]] = []


def remember_started(processes: list[subprocess.Popen[bytes]]) -> None:
    """The processes that this one has started, and must not leave behind."""
    global _started  # noqa: PLW0603 - a process starts others once
    _started = processes
    # The store is kept as well: it lives in the first process, and the others look into it when that one has left.
    atexit.register(_outlive, list(processes), _get_default_store())


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
    if isinstance(error, Interrupted):
        return 128 + error.signal_number
    if isinstance(error, KeyboardInterrupt):
        return 130
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


def _outlive(processes: list[subprocess.Popen[bytes]], _store: dist.Store) -> None:
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
