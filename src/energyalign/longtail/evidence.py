"""Balanced, augmented evidence from the training data of a run (Algorithm 2 of the paper)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from energyalign.core.evidence import Evidence
from energyalign.data.images import ImageSet
from energyalign.longtail.config import EvidencePlan
from energyalign.longtail.data import LongTailData
from energyalign.pytorch.balanced import balanced_evidence
from energyalign.pytorch.collect import collect_evidence
from energyalign.train.randomness import derived_seed


class _Readable:
    """An image set as `balanced_evidence` wants it: by index."""

    def __init__(self, images: ImageSet) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._images.read(index)


def draw_evidence(
    network: torch.nn.Module, data: LongTailData, plan: EvidencePlan, seed: int, *, workers: int = 0
) -> Evidence:
    """Logits of the network on so many training images of every class, each draw under another transformation."""
    loader = balanced_evidence(
        _Readable(data.train), data.train.labels, plan.per_class, augment=plan.policy,
        normalize=_from_unit_range(data.train), seed=derived_seed(seed, "evidence"), num_workers=workers,
    )  # fmt: skip
    evidence, _ = collect_evidence(
        network, loader, counts=data.counts, kind="training", class_names=list(data.train.class_names)
    )
    return evidence


def _from_unit_range(images: ImageSet) -> Callable[[torch.Tensor], torch.Tensor]:
    """What the network expects, of images in [0, 1]: the preparation itself works on bytes."""
    mean, std = (
        torch.tensor(v).view(-1, 1, 1) for v in (images.preparation.normalise.mean, images.preparation.normalise.std)
    )
    return lambda batch: (batch - mean) / std
