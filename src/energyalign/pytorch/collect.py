"""Logits of a model over a loader, as evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt
import torch
import torch.distributed as dist

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.pytorch.batches import Batch, device_of, open_batch
from energyalign.pytorch.inference import undisturbed
from energyalign.pytorch.outputs import flat_logits, logits_of


def collect_evidence(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    counts: npt.ArrayLike | None = None,
    kind: EvidenceKind = "training",
    class_names: list[str] | None = None,
) -> tuple[Evidence, Batch]:
    """Run the model over the loader once and keep logits and labels on the CPU; also the first batch.

    In a process group every rank reads its own loader and all ranks end with all logits, in the order of the
    ranks, so that each computes the same shifts.
    """
    blocks: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    first: Batch | None = None
    device = device_of(model)
    with undisturbed(model):
        for number, item in enumerate(loader):
            batch = open_batch(item, device)
            first = first or batch
            logits = flat_logits(logits_of(batch.call(model)))
            if torch.isnan(logits).any():
                raise EnergyAlignError(f"the model gave NaN logits in batch {number} (counted from 0).")
            blocks.append(logits.to("cpu", _kept_dtype(logits.dtype)))
            if batch.labels is not None:
                labels.append(batch.labels.to("cpu").reshape(-1))
    if first is None:
        raise EnergyAlignError("the loader yielded nothing: give at least one batch.")
    if labels and sum(map(len, labels)) != sum(map(len, blocks)):
        raise EnergyAlignError("some batches have labels and some have none, or not one per sample.")
    logits = _from_all_ranks(torch.cat(blocks))
    truth = _from_all_ranks(torch.cat(labels)).numpy() if labels else None
    evidence = Evidence.from_arrays(logits.numpy(), truth, counts=counts, kind=kind, class_names=class_names)
    return evidence, first


def _kept_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _from_all_ranks(tensor: torch.Tensor) -> torch.Tensor:
    """The tensors of all ranks one after another; ranks may hold different numbers of rows."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return tensor
    n_rows = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(n_rows, torch.tensor([len(tensor)]))
    longest = max(int(n) for n in n_rows)
    padded = torch.zeros((longest, *tensor.shape[1:]), dtype=tensor.dtype)
    padded[: len(tensor)] = tensor
    parts = [torch.empty_like(padded) for _ in n_rows]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(n)] for part, n in zip(parts, n_rows, strict=True)])
