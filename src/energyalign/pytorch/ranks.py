"""Work that the ranks of a process group share, and its results, which every rank ends with."""

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
    """Another process has a problem, of which this one knows no more than that."""


class AnotherRankLost(AnotherRankFailed, TryAgain):
    """Another process is gone without a word."""


def in_a_group() -> bool:
    """Whether this process is one of several that work together."""
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def own_part(items: _Items) -> _Items:
    """What this rank does of a list: as much as the others, or one more; one rank after another they do it in order."""
    if not in_a_group():
        return items
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    part: _Items = items[len(items) * rank // n_ranks : len(items) * (rank + 1) // n_ranks]  # type: ignore[assignment]
    return part


def from_all_ranks(own: LogitStore) -> LogitStore:
    """The blocks of all ranks, one rank after another; each rank may hold another number of them, or none."""
    if not in_a_group():
        return own
    everyone = LogitStore()
    n_blocks = [int(n) for (n,) in _from_each(torch.tensor([len(own.blocks)]))]
    for rank, n in enumerate(n_blocks):
        for i in range(n):
            mine = rank == dist.get_rank()
            logits = _sent_by(rank, torch.from_numpy(own.blocks[i]) if mine else None)
            known = (own.labels[i], own.samples[i]) if mine else (None, None)
            sent = [_sent_by(rank, torch.empty(0, dtype=torch.int64) if part is None else part) for part in known]
            everyone.append(logits, *(part if len(part) == len(logits) else None for part in sent))
    return everyone


@contextlib.contextmanager
def failing_together() -> Iterator[None]:
    """What fails inside on one rank is raised there and refused on every other: they would wait for it for ever."""
    problem: Exception | None = None
    try:
        yield
    except Exception as error:  # of whatever kind
        problem = error
    if in_a_group():
        failed = [rank for rank, (bad,) in enumerate(_from_each(torch.tensor([int(problem is not None)]))) if bad]
        if problem is None and failed:
            raise AnotherRankFailed(f"rank {failed[0]} could not do its part: see its own message.")
    if problem is not None:
        raise problem


def take_from_first(network: torch.nn.Module) -> None:
    """Give every rank the values of the first one's network, parameters and buffers, bit for bit."""
    if in_a_group():
        for value in network.state_dict().values():
            dist.broadcast(value, 0)


def summed_over_ranks(numbers: Ints) -> Ints:
    """The sum of every rank's numbers, on every rank."""
    return np.asarray(np.sum(_from_each(torch.from_numpy(numbers)), axis=0, dtype=np.int64))


def _from_each(numbers: torch.Tensor) -> list[list[int]]:
    """A few integers of every rank."""
    own = numbers.to(_wire(), torch.int64)
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, own)
    return [tensor.tolist() for tensor in gathered]


def _sent_by(rank: int, tensor: torch.Tensor | None) -> torch.Tensor:
    """The tensor of that rank, on every rank; the others learn its shape and dtype first."""
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
    """Where tensors must be to travel: NCCL takes them from the GPU only."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
