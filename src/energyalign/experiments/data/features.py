"""Labelled features of an encoder, and balanced evidence from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.images import MemoryImages
from energyalign.experiments.data.order import EVIDENCE, torch_seed
from energyalign.experiments.data.preparation import AsGiven
from energyalign.pytorch.balanced import draw_evenly
from energyalign.pytorch.ranks import own_part

_EVIDENCE_BATCH = 256
Change: TypeAlias = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


@dataclass(frozen=True, eq=False)
class FeatureSet(MemoryImages):
    """Feature vectors in memory: `images` is float32 of shape (n_samples, n_features)."""

    unit: ClassVar[str] = "sample"

    preparation: AsGiven = field(default_factory=AsGiven)

    def __post_init__(self) -> None:
        if self.images.dtype != torch.float32 or self.images.dim() != 2:
            raise EnergyAlignError(
                f"{self.name}: features must be float32 of shape (n_samples, n_features), got {self.images.dtype} of "
                f"shape {tuple(self.images.shape)}."
            )
        self._check_labels(len(self.images))
        wrong = (~self.images.isfinite()).nonzero()
        if len(wrong):
            row, column = wrong[0].tolist()
            raise EnergyAlignError(
                f"{self.name}: features must be finite, got {self.images[row, column]:g} in row {row}, column {column}."
            )


def evidence_batches(
    train: FeatureSet, per_class: int, policy: str, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Draw `per_class` samples of every class and yield them in batches, changed by the policy, with their labels.

    Samples of smaller classes are repeated. The batches are divided among the ranks of a process group.
    """
    indices = draw_evenly(train.labels, per_class, np.random.default_rng(seed))
    change = _CHANGES[policy](train)
    starts = range(0, len(indices), _EVIDENCE_BATCH)
    for start in own_part(starts):
        chosen = indices[start : start + _EVIDENCE_BATCH]
        generator = torch.Generator().manual_seed(torch_seed(seed, EVIDENCE, start))
        yield change(train.images[chosen], generator), torch.from_numpy(train.labels[chosen])


def _none(_train: FeatureSet) -> Change:
    return lambda vectors, _generator: vectors


def _noise(train: FeatureSet) -> Change:
    """Add normal noise, with the pooled standard deviation within classes of each feature."""
    labels = torch.from_numpy(train.labels)
    counts = torch.bincount(labels, minlength=train.n_classes)
    sums = torch.zeros(train.n_classes, train.images.shape[1]).index_add_(0, labels, train.images)
    means = sums / counts.clamp(min=1)[:, None]
    squares = sum(
        (block - means[of_block]).square().sum(dim=0)
        for block, of_block in zip(train.images.split(4096), labels.split(4096), strict=True)
    )
    spread = (squares / max(1, len(labels) - int((counts > 0).sum()))).sqrt()
    return lambda vectors, generator: vectors + spread * torch.randn(vectors.shape, generator=generator)


def _mixup(_train: FeatureSet) -> Change:
    """Mix each sample with another sample of the batch, which gets a share of at most one half."""

    def change(vectors: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        share = 0.5 * torch.rand(len(vectors), 1, generator=generator)
        return torch.lerp(vectors, vectors[torch.randperm(len(vectors), generator=generator)], share)

    return change


_CHANGES: dict[str, Callable[[FeatureSet], Change]] = {"none": _none, "noise": _noise, "mixup": _mixup}
