"""Logits of a model over a loader, as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.names import Counts
from energyalign.pytorch.batches import ModelBatch, as_loader, class_names_of, device_of, open_batch
from energyalign.pytorch.inference import undisturbed
from energyalign.pytorch.outputs import flat_logits, logits_of
from energyalign.pytorch.ranks import failing_together, from_all_ranks
from energyalign.pytorch.store import LogitStore


def collect_evidence(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    counts: Counts | None = None,
    kind: EvidenceKind = "training",
    class_names: Sequence[str] | None = None,
) -> tuple[Evidence, ModelBatch]:
    """Run the model over the loader once and keep logits and labels on the CPU; also the first batch.

    In a process group every rank reads its own loader and all ranks end with all logits, in the order of the
    ranks, so that each computes the same shifts.
    """
    store, first = LogitStore(), None
    with failing_together():
        if not isinstance(model, torch.nn.Module):
            raise EnergyAlignError(f"the model is a {type(model).__name__}, not a torch.nn.Module: give it first.")
        loader = as_loader(loader)
        first = _collect(model, loader, store)
        if first is None:
            raise EnergyAlignError("the loader yielded nothing: give at least one batch.")
    assert first is not None
    everyone = from_all_ranks(store)
    n_classes = everyone.blocks[0].shape[1]
    evidence = Evidence.from_blocks(
        everyone.read, everyone.n_samples, n_classes, everyone.all_labels(),
        counts=counts, kind=kind, class_names=class_names or class_names_of(loader, n_classes),
    )  # fmt: skip
    if evidence.holds_probabilities:
        raise EnergyAlignError(
            "the model returns probabilities (every row sums to one): align it without its softmax, which `torch."
            "nn.CrossEntropyLoss` does not need either."
        )
    return evidence, first


def _collect(model: torch.nn.Module, loader: Iterable[Any], store: LogitStore) -> ModelBatch | None:
    """The first batch, if there is one."""
    first: ModelBatch | None = None
    device = device_of(model)
    with undisturbed(model):
        for number, item in enumerate(loader):
            batch = open_batch(item, device)
            first = first or batch
            logits = flat_logits(logits_of(batch.call(model)))
            if torch.isnan(logits).any():
                raise EnergyAlignError(f"the model gave NaN logits in batch {number} (counted from 0).")
            store.append(logits, batch.labels)
    return first
