"""Count training samples per class from the batches of a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from energyalign.core.arrays import Ints
from energyalign.core.checks import flat_labels
from energyalign.core.heads import IGNORE_INDEX, to_rows
from energyalign.pytorch.batches import LABEL_KEYS
from energyalign.pytorch.ranks import in_a_group, sum_over_ranks


class LabelCounter:
    """A counter of class indices. It gives up if it meets other labels, such as the soft labels of mixup.

    Parameters
    ----------
    multilabel : bool, default=False
        Whether labels are a matrix of 0 and 1: label k is then counted as classes 2k (without) and 2k + 1 (with it).
    ignore_index : int, default=-100
        Label that is not counted.

    Attributes
    ----------
    seen : dict of int to int, or None
        Samples of each class seen on this rank; None after labels that are not class indices.
    """

    def __init__(self, *, multilabel: bool = False, ignore_index: int = IGNORE_INDEX) -> None:
        self._multilabel, self._ignore_index = multilabel, ignore_index
        self.seen: dict[int, int] | None = {}

    def add_batch(self, batch: Any) -> None:
        """Count the labels of a batch of a loader. Inputs are not touched: they may be on a GPU."""
        if isinstance(batch, Mapping):
            self.add(next((batch[key] for key in LABEL_KEYS if key in batch), None))
        else:
            self.add(batch[1] if isinstance(batch, (tuple, list)) and len(batch) == 2 else None)

    def add(self, labels: Any) -> None:
        """Count these labels: class indices of samples, tokens or pixels."""
        indices = self._to_indices(labels)
        if self.seen is None or indices is None:
            self.seen = None
            return
        for label, n in zip(*(part.tolist() for part in np.unique(indices, return_counts=True)), strict=True):
            self.seen[label] = self.seen.get(label, 0) + n

    def counts(self, n_classes: int) -> Ints | None:
        """Return the samples of each class on all ranks; None if they could not be counted or a class is missing.

        For independent labels the shape is (n_classes, 2): samples without and with each label.
        """
        if self._multilabel:
            n_classes *= 2
        padded = np.zeros(n_classes + 1, dtype=np.int64)
        if self.seen and max(self.seen) < n_classes:
            padded[list(self.seen)] = list(self.seen.values())
        else:
            padded[-1] = 1  # the number of ranks that could not count
        if in_a_group():
            padded = sum_over_ranks(padded)
        if padded[-1] or not padded[:-1].all():
            return None
        return padded[:-1].reshape(-1, 2) if self._multilabel else padded[:-1]

    def _to_indices(self, labels: Any) -> Ints | None:
        """Return the labels as class indices; None if they are missing, names, probabilities or one-hot rows."""
        try:
            numbers = np.asarray(torch.as_tensor(labels).cpu().numpy())
        except (TypeError, ValueError, RuntimeError):
            return None
        if numbers.ndim == 0 or numbers.dtype.kind not in "biuf" or np.any(numbers != np.rint(numbers)):
            return None
        if self._multilabel:
            numbers = to_rows(numbers)
        elif flat_labels(numbers).ndim != numbers.ndim:  # one-hot rows, or tokens that look like one-hot rows
            return None
        known = numbers != self._ignore_index
        counted = numbers[known].astype(np.int64)
        if counted.min(initial=0) < 0 or (self._multilabel and counted.max(initial=0) > 1):
            return None
        return np.asarray(counted + 2 * np.nonzero(known)[1]) if self._multilabel else counted
