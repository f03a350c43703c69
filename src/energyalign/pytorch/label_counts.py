"""Training samples per class, counted from what a trainer sees anyway."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from energyalign.core.arrays import Ints
from energyalign.core.errors import EnergyAlignError
from energyalign.pytorch.batches import open_batch
from energyalign.pytorch.ranks import in_a_group, summed_over_ranks


class LabelCounter:
    """Counts class numbers until it meets something else, such as the soft labels of mixup; then it knows nothing."""

    def __init__(self) -> None:
        self._seen: Ints | None = np.zeros(0, dtype=np.int64)

    def add_batch(self, batch: Any) -> None:
        """Count the labels of a batch as a loader yields it."""
        try:
            self.add(open_batch(batch, torch.device("cpu")).labels)
        except EnergyAlignError:
            self._seen = None

    def add(self, labels: Any) -> None:
        """Count these labels."""
        numbers = None if labels is None else np.asarray(torch.as_tensor(labels).cpu().numpy()).reshape(-1)
        if self._seen is None or numbers is None or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
            self._seen = None
            return
        found = np.bincount(numbers, minlength=len(self._seen))
        found[: len(self._seen)] += self._seen
        self._seen = found

    def counts(self, n_classes: int) -> Ints | None:
        """Samples of each class over all ranks, or None if they could not be counted or a class was not seen."""
        known = self._seen is not None and 0 < len(self._seen) <= n_classes
        padded = np.zeros(n_classes + 1, dtype=np.int64)
        if known and self._seen is not None:
            padded[: len(self._seen)] = self._seen
        padded[-1] = not known  # how many ranks could not count
        if in_a_group():
            padded = summed_over_ranks(padded)
        return None if padded[-1] or not padded[:-1].all() else padded[:-1]
