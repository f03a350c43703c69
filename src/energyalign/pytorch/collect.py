"""Collect the logits of a model over a loader, as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from energyalign.core._engine.parts import WholePart
from energyalign.core.checks import flat_labels
from energyalign.core.errors import EnergyAlignError
from energyalign.core.evidence import Evidence, EvidenceKind
from energyalign.core.heads import IGNORE_INDEX, HeadRows, open_head
from energyalign.core.multilabel import MultilabelEvidence
from energyalign.core.names import Counts
from energyalign.pytorch.batches import ModelBatch, as_loader, class_names_of, device_of, open_batch
from energyalign.pytorch.inference import undisturbed
from energyalign.pytorch.outputs import logits_of
from energyalign.pytorch.ranks import failing_together, from_all_ranks
from energyalign.pytorch.store import LogitStore


def collect_evidence(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    counts: Counts | None = None,
    kind: EvidenceKind = "training",
    class_names: Sequence[str] | None = None,
    multilabel: bool = False,
    ignore_index: int = IGNORE_INDEX,
) -> tuple[Evidence | MultilabelEvidence, ModelBatch]:
    """Run the model over the loader once; return logits and labels as evidence, on the CPU, and the first batch.

    In a process group every rank reads its own loader and gets the logits of all ranks, in the order of the ranks, so
    that each computes the same shifts.
    """
    store, first = LogitStore(), None
    with failing_together():
        if not isinstance(model, torch.nn.Module):
            raise EnergyAlignError(f"the first argument must be a torch.nn.Module, got a {type(model).__name__}.")
        loader = as_loader(loader)
        first = _collect(model, loader, store, multilabel=multilabel, ignore_index=ignore_index)
        if not store.blocks:
            raise EnergyAlignError("the loader must yield at least one batch, with labels that are not ignored.")
    assert first is not None
    everyone = from_all_ranks(store)
    n_classes = everyone.blocks[0].shape[1]
    parts, labels = [WholePart(everyone.read, everyone.n_samples)], everyone.all_labels()
    known: dict[str, Any] = {
        "counts": counts,
        "kind": kind,
        "class_names": class_names or class_names_of(loader, n_classes),
        "groups": everyone.groups(),
    }
    if multilabel:
        return MultilabelEvidence.from_parts(parts, n_classes, labels, ignore_index=ignore_index, **known), first
    evidence = Evidence.from_parts(parts, n_classes, labels, **known)
    if evidence.holds_probabilities:
        raise EnergyAlignError(
            "the model must return logits, got probabilities (every row sums to one): remove its softmax, which "
            "`torch.nn.CrossEntropyLoss` does not need either."
        )
    return evidence, first


def _collect(
    model: torch.nn.Module, loader: Iterable[Any], store: LogitStore, *, multilabel: bool, ignore_index: int
) -> ModelBatch | None:
    """Store the logits and labels of all batches; return the first batch, if there is one."""
    first: ModelBatch | None = None
    device = device_of(model)
    with undisturbed(model):
        for number, item in enumerate(loader):
            batch = open_batch(item, device)
            first = first or batch
            logits = logits_of(batch.call(model))
            if torch.isnan(logits).any():
                raise EnergyAlignError(
                    f"the model returned NaN logits for batch {number} (counted from 0): fix the model or that batch."
                )
            rows = open_head(logits, batch.labels, ignore_index=ignore_index, multilabel=multilabel)
            if len(rows.logits) == 0:
                continue
            samples = None if rows.samples is None or rows.n_positions == 1 else torch.from_numpy(rows.samples)
            store.append(rows.logits, None if rows.labels is None else _to_integers(rows, multilabel), samples)
    return first


def _to_integers(rows: HeadRows, multilabel: bool) -> torch.Tensor:
    """Return the labels as integers; losses of one logit and of independent labels take them as floats."""
    assert rows.labels is not None
    labels = rows.labels if multilabel else flat_labels(rows.labels)
    if labels.shape[0] != len(rows.logits) or (labels.ndim > 1 and not multilabel):
        raise EnergyAlignError(f"expected one class index per sample as labels of a batch, got shape {labels.shape}.")
    binary = multilabel or rows.logits.shape[1] == 2
    if labels.dtype.kind == "f" and binary and np.all(labels == np.rint(labels)):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "biu":
        raise EnergyAlignError(f"expected class indices (integers) as labels of a batch, got {labels.dtype}.")
    return torch.from_numpy(labels.astype(np.int64))
