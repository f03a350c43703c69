"""Balanced, augmented evidence from the training data of a run (Algorithms 1 and 2 of the paper)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from energyalign.core.evidence import Evidence
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.loader import leave_signals_to_the_parent, plain_errors
from energyalign.experiments.engine.plan import AS_IN_TRAINING, EvidencePlan
from energyalign.experiments.train.randomness import derived_seed
from energyalign.pytorch.balanced import balanced_evidence
from energyalign.pytorch.batches import device_of
from energyalign.pytorch.ranks import failing_together, from_all_ranks, own_part
from energyalign.pytorch.store import LogitStore


def as_evidence(logits: LogitStore, train: ImageSet) -> Evidence:
    """Logits of drawn images as evidence, which carries along the training counts of all images."""
    return Evidence.from_blocks(
        logits.read, logits.n_samples, train.n_classes, logits.all_labels(), kind="training",
        counts=np.bincount(train.labels, minlength=train.n_classes), class_names=list(train.class_names),
    )  # fmt: skip


def drawn_outputs(
    network: torch.nn.Module, train: ImageSet, plan: EvidencePlan, seed: int, *, workers: int = 0
) -> LogitStore:
    """What a network in evaluation mode, or a part of one, says of the drawn images, and their labels.

    The ranks of a process group share the batches, and each ends with all outputs, in the order in which one process
    would have them.
    """
    as_in_training = plan.policy == AS_IN_TRAINING
    loader = balanced_evidence(
        _Prepared(train, augment=as_in_training), train.labels, plan.per_class,
        augment="none" if as_in_training else plan.policy, normalize=_from_unit_range(train),
        seed=derived_seed(seed, "evidence"), num_workers=workers if isinstance(train, FileImages) else 0,
    )  # fmt: skip
    said, device = LogitStore(), device_of(network)
    with plain_errors(), failing_together(), torch.inference_mode():
        for images, labels in _own_part(loader):
            said.append(network(images.to(device)), labels)
    return from_all_ranks(said)


def _own_part(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The batches of this rank, each as it is in the loader."""
    return DataLoader(
        loader.dataset, batch_sampler=own_part(list(loader.batch_sampler)), num_workers=loader.num_workers,
        collate_fn=loader.collate_fn, generator=torch.Generator(), worker_init_fn=leave_signals_to_the_parent,
    )  # fmt: skip


class _Prepared:
    """An image set as `balanced_evidence` wants it: by index, all of one size, any draws from torch's generator."""

    def __init__(self, images: ImageSet, *, augment: bool) -> None:
        self._images, self._augment = images, augment
        # Files are of any size: evidence sees them as training does, or as evaluation does.
        self._resized = images.preparation.transformation(augment=augment) if isinstance(images, FileImages) else None

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> torch.Tensor:
        if isinstance(self._images, FileImages) and self._resized is not None:
            image: torch.Tensor = self._resized(self._images.picture(index))
            return image
        image = self._images.read(index)
        if self._augment and isinstance(self._images, MemoryImages):
            preparation = self._images.preparation
            rng = np.random.default_rng(int(torch.randint(2**62, ())))
            image = preparation.augment(image[None], preparation.draw(1, rng))[0]
        return image


def _from_unit_range(images: ImageSet) -> v2.Normalize:
    """What the network expects, of images in [0, 1]: the preparation itself works on bytes."""
    return v2.Normalize(images.preparation.normalise.mean, images.preparation.normalise.std)
