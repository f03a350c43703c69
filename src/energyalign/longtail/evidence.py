"""Balanced, augmented evidence from the training data of a run (Algorithm 2 of the paper)."""

from __future__ import annotations

import torch
from torchvision.transforms import v2

from energyalign.core.evidence import Evidence
from energyalign.data.file_images import FileImages
from energyalign.data.images import ImageSet
from energyalign.longtail.config import EvidencePlan
from energyalign.longtail.data import LongTailData
from energyalign.pytorch.balanced import balanced_evidence
from energyalign.pytorch.collect import collect_evidence
from energyalign.train.randomness import derived_seed


class _Prepared:
    """An image set as `balanced_evidence` wants it: by index, all of one size."""

    def __init__(self, images: ImageSet) -> None:
        self._images = images
        # Files are of any size: evidence sees them as evaluation does.
        self._resized = images.preparation.transformation(augment=False) if isinstance(images, FileImages) else None

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._resized is None or not isinstance(self._images, FileImages):
            return self._images.read(index)
        image: torch.Tensor = self._resized(self._images.picture(index))
        return image


def draw_evidence(
    network: torch.nn.Module, data: LongTailData, plan: EvidencePlan, seed: int, *, workers: int = 0
) -> Evidence:
    """Logits of the network on so many training images of every class, each draw under another transformation."""
    loader = balanced_evidence(
        _Prepared(data.train), data.train.labels, plan.per_class, augment=plan.policy,
        normalize=_from_unit_range(data.train), seed=derived_seed(seed, "evidence"),
        num_workers=workers if isinstance(data.train, FileImages) else 0,
    )  # fmt: skip
    evidence, _ = collect_evidence(
        network, loader, counts=data.counts, kind="training", class_names=list(data.train.class_names)
    )
    return evidence


def _from_unit_range(images: ImageSet) -> v2.Normalize:
    """What the network expects, of images in [0, 1]: the preparation itself works on bytes."""
    return v2.Normalize(images.preparation.normalise.mean, images.preparation.normalise.std)
