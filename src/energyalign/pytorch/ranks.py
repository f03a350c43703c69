"""Share work among the ranks of a process group, and gather the results on every rank."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

from energyalign.core.arrays import Ints
from energyalign.core.errors import CannotGoOn, TryAgain
from energyalign.pytorch.store import LogitStore

_Items = TypeVar("_Items", bound=Sequence[object])


class AnotherRankFailed(CannotGoOn):
    """Another process has failed; its own message says why."""


class AnotherRankLost(AnotherRankFailed, TryAgain):
    """Another process has ended without a message."""


def in_a_group() -> bool:
    """Return whether this process belongs to a group of several processes."""
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def own_part(items: _Items) -> _Items:
    """Return this rank's share of a list. Shares are consecutive, and their sizes differ by at most one."""
    if not in_a_group():
        return items
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    part: _Items = items[len(items) * rank // n_ranks : len(items) * (rank + 1) // n_ranks]  # type: ignore[assignment]
    return part


def from_all_ranks(own: LogitStore) -> LogitStore:
    """Return the blocks of all ranks, in the order of the ranks; their numbers may differ, and may be 0."""
    if not in_a_group():
        return own
    everyone = LogitStore()
    n_blocks = [int(n) for (n,) in _from_each(torch.tensor([len(own.blocks)]))]
    for rank, n in enumerate(n_blocks):
        for i in range(n):
            mine = rank == dist.get_rank()
            logits = _broadcast(rank, torch.from_numpy(own.blocks[i]) if mine else None)
            known = (own.labels[i], own.samples[i]) if mine else (None, None)
            sent = [_broadcast(rank, torch.empty(0, dtype=torch.int64) if part is None else part) for part in known]
            everyone.append(logits, *(part if len(part) == len(logits) else None for part in sent))
    return everyone


@contextlib.contextmanager
def failing_together() -> Iterator[None]:
    """Raise on all ranks if one fails in the block; the others would wait for it forever."""
    problem: Exception | None = None
    try:
        yield
    except Exception as error:
        problem = error
    if in_a_group():
        failed = [rank for rank, (bad,) in enumerate(_from_each(torch.tensor([int(problem is not None)]))) if bad]
        if problem is None and failed:
            raise AnotherRankFailed(f"rank {failed[0]} failed: see its own message.")
    if problem is not None:
        raise problem


def take_from_first(network: torch.nn.Module) -> None:
    """Copy parameters and buffers of the network from the first rank to all others, bit for bit."""
    if in_a_group():
        for value in network.state_dict().values():
            dist.broadcast(value, 0)


def sum_over_ranks(numbers: Ints) -> Ints:
    """Return the sum over all ranks, on every rank."""
    return np.asarray(np.sum(_from_each(torch.from_numpy(numbers)), axis=0, dtype=np.int64))


def _from_each(numbers: torch.Tensor) -> list[list[int]]:
    """Return the integers of every rank."""
    own = numbers.to(_wire(), torch.int64)
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, own)
    return [tensor.tolist() for tensor in gathered]


def _broadcast(rank: int, tensor: torch.Tensor | None) -> torch.Tensor:
    """Return the tensor of that rank, on every rank; its shape and dtype are sent first."""
    mine = rank == dist.get_rank()
    head = torch.zeros(4, dtype=torch.int64)
    if tensor is not None and mine:
        shape = [*tensor.shape, -1, -1][:2]
        head[:] = torch.tensor([_DTYPES.index(tensor.dtype), tensor.ndim, *shape])
    head = head.to(_wire())
    dist.broadcast(head, rank)
    dtype, ndim, *shape = head.tolist()
    body = (
        tensor.to(_wire()).contiguous()
        if tensor is not None and mine
        else torch.empty(shape[:ndim], dtype=_DTYPES[dtype], device=_wire())
    )
    dist.broadcast(body, rank)
    return body.cpu()


_DTYPES = (torch.float32, torch.float64, torch.int64)


def _wire() -> torch.device:
    """Return the device to communicate on: the GPU for NCCL, otherwise the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
