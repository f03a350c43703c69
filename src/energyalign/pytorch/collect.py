"""Logits of a model over a loader, as evidence."""

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
    """Run the model over the loader once and keep logits and labels on the CPU; also the first batch.

    In a process group every rank reads its own loader and all ranks end with all logits, in the order of the
    ranks, so that each computes the same shifts.
    """
    store, first = LogitStore(), None
    with failing_together():
        if not isinstance(model, torch.nn.Module):
            raise EnergyAlignError(f"the model is a {type(model).__name__}, not a torch.nn.Module: give it first.")
        loader = as_loader(loader)
        first = _collect(model, loader, store, multilabel=multilabel, ignore_index=ignore_index)
        if not store.blocks:
            raise EnergyAlignError("the loader yielded nothing: give at least one batch, with labels not all ignored.")
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
            "the model returns probabilities (every row sums to one): align it without its softmax, which `torch."
            "nn.CrossEntropyLoss` does not need either."
        )
    return evidence, first


def _collect(
    model: torch.nn.Module, loader: Iterable[Any], store: LogitStore, *, multilabel: bool, ignore_index: int
) -> ModelBatch | None:
    """The first batch, if there is one."""
    first: ModelBatch | None = None
    device = device_of(model)
    with undisturbed(model):
        for number, item in enumerate(loader):
            batch = open_batch(item, device)
            first = first or batch
            logits = logits_of(batch.call(model))
            if torch.isnan(logits).any():
                raise EnergyAlignError(f"the model gave NaN logits in batch {number} (counted from 0).")
            rows = open_head(logits, batch.labels, ignore_index=ignore_index, multilabel=multilabel)
            if len(rows.logits) == 0:
                continue
            samples = None if rows.samples is None or rows.n_positions == 1 else torch.from_numpy(rows.samples)
            store.append(rows.logits, None if rows.labels is None else _class_numbers(rows, multilabel), samples)
    return first


def _class_numbers(rows: HeadRows, multilabel: bool) -> torch.Tensor:
    """Labels as integers; losses of one logit or of independent labels take them as floats."""
    assert rows.labels is not None
    labels = rows.labels if multilabel else flat_labels(rows.labels)
    if labels.shape[0] != len(rows.logits) or (labels.ndim > 1 and not multilabel):
        raise EnergyAlignError(f"the labels of a batch have shape {labels.shape}: give one class number per sample.")
    sides = multilabel or rows.logits.shape[1] == 2
    if labels.dtype.kind == "f" and sides and np.all(labels == np.rint(labels)):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "biu":
        raise EnergyAlignError(f"the labels of a batch are {labels.dtype}: give class numbers, as integers.")
    return torch.from_numpy(labels.astype(np.int64))
