"""Outputs of a trained network: for images, for features, and for balanced evidence (Algorithms 1 and 2)."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx, nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from energyalign.core.evidence import Evidence
from energyalign.experiments.data.features import FeatureSet, evidence_batches
from energyalign.experiments.data.file_images import FileImages
from energyalign.experiments.data.images import ImageSet, MemoryImages
from energyalign.experiments.data.loader import evaluation_batches, leave_signals_to_the_parent, plain_errors
from energyalign.experiments.engine.config import AS_IN_TRAINING, EvidencePlan
from energyalign.experiments.nets.network import Network
from energyalign.experiments.train.randomness import derived_seed
from energyalign.pytorch.balanced import balanced_evidence
from energyalign.pytorch.batches import device_of
from energyalign.pytorch.ranks import failing_together, from_all_ranks, own_part
from energyalign.pytorch.store import LogitStore

Floats32 = npt.NDArray[np.float32]


def outputs(network: nn.Module, images: ImageSet, *, workers: int = 0, device: torch.device | str = "cpu") -> Floats32:
    """Return the outputs of a network, or of a part of one, for all images in their order, without augmentation.

    The network must be in evaluation mode. The ranks of a process group share the batches, and each returns all
    outputs.
    """
    collected = LogitStore()
    with failing_together(), torch.inference_mode():
        for batch in evaluation_batches(images, batch_size=500, workers=workers, device=device, shared=True):
            collected.append(network(batch.images).float(), None)
    return np.concatenate(from_all_ranks(collected).blocks)


def scores(head: nn.Module, features: Floats32, *, device: torch.device | str = "cpu") -> Floats32:
    """Return the outputs of a head for features, computed in blocks; sets the head to evaluation mode."""
    head.eval()
    with torch.inference_mode():
        blocks = torch.from_numpy(features).split(4096)
        return np.concatenate([head(block.to(device)).float().cpu().numpy() for block in blocks])


def for_inference(network: Network) -> Network:
    """Copy a network in evaluation mode, with batch normalisation fused into convolutions.

    The copy is faster, equal up to rounding, and cannot be trained. Equal weights give bitwise equal copies, whether
    they were just trained or loaded from a file.
    """
    copied = copy.deepcopy(network)
    copied.eval().requires_grad_(False)
    copied.backbone = _fuse(copied.backbone)
    return copied


def _fuse(backbone: nn.Module) -> nn.Module:
    try:
        traced = fx.symbolic_trace(backbone)
    except Exception:  # torch reports control flow that depends on the input in many ways: leave the backbone as it is
        return backbone
    modules = dict(traced.named_modules())
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    times_called = Counter(node.target for node in calls)
    for norm in calls:
        conv = norm.args[0] if norm.args else norm
        if conv is norm or conv not in calls or len(conv.users) > 1 or times_called[conv.target] > 1:
            continue
        # Fuse only normalisation by running statistics, which do not depend on the batch.
        is_fixed = isinstance(modules[norm.target], nn.BatchNorm2d) and modules[norm.target].running_mean is not None
        if is_fixed and isinstance(modules[conv.target], nn.Conv2d):
            fused = nn.utils.fuse_conv_bn_eval(modules[conv.target], modules[norm.target])
            traced.set_submodule(conv.target, fused)
            norm.replace_all_uses_with(conv)
            traced.graph.erase_node(norm)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def as_evidence(logits: LogitStore, train: ImageSet) -> Evidence:
    """Make evidence of the logits of drawn images, with the training counts of all images."""
    return Evidence.from_blocks(
        logits.read, logits.n_samples, train.n_classes, logits.all_labels(), kind="training",
        counts=np.bincount(train.labels, minlength=train.n_classes), class_names=list(train.class_names),
    )  # fmt: skip


def drawn_outputs(
    network: nn.Module, train: ImageSet, plan: EvidencePlan, seed: int, *, workers: int = 0
) -> LogitStore:
    """Draw balanced evidence and return the outputs of a network, or of a part of one, with the labels.

    The network must be in evaluation mode. The ranks of a process group share the batches, and each returns all
    outputs, in the order of a single process.
    """
    collected, device, own_seed = LogitStore(), device_of(network), derived_seed(seed, "evidence")
    drawn: Iterable[tuple[torch.Tensor, torch.Tensor]]
    normalise = v2.Identity()
    if isinstance(train, FeatureSet):
        drawn = evidence_batches(train, plan.per_class, plan.policy, own_seed)
    else:
        drawn = _draw_images(train, plan, own_seed, workers)
        normalise = v2.Normalize(train.preparation.normalise.mean, train.preparation.normalise.std)  # of [0, 1]
    with plain_errors(), failing_together(), torch.inference_mode():
        for images, labels in drawn:
            collected.append(network(normalise(images.to(device))), labels)
    return from_all_ranks(collected)


def _draw_images(train: ImageSet, plan: EvidencePlan, seed: int, workers: int) -> DataLoader[Any]:
    """Return the evidence batches of this rank."""
    as_in_training = plan.policy == AS_IN_TRAINING
    loader = balanced_evidence(
        _Prepared(train, augment=as_in_training), train.labels, plan.per_class,
        augment="none" if as_in_training else plan.policy, seed=seed,
        num_workers=workers if isinstance(train, FileImages) else 0,
    )  # fmt: skip
    return DataLoader(
        loader.dataset, batch_sampler=own_part(list(loader.batch_sampler)), num_workers=loader.num_workers,
        collate_fn=loader.collate_fn, generator=torch.Generator(), worker_init_fn=leave_signals_to_the_parent,
    )  # fmt: skip


class _Prepared:
    """An image set as `balanced_evidence` reads it: indexed, of one size, augmented with torch's global generator."""

    def __init__(self, images: ImageSet, *, augment: bool) -> None:
        self._images, self._augment = images, augment
        # Files have any size: resize them as training does, or as evaluation does.
        self._resized = images.preparation.transformation(augment=augment) if isinstance(images, FileImages) else None

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> torch.Tensor:
        image = self._images.read(index)
        if self._resized is not None:
            image = self._resized(image)
        elif self._augment and isinstance(self._images, MemoryImages):
            preparation = self._images.preparation
            rng = np.random.default_rng(int(torch.randint(2**62, ())))
            image = preparation.augment(image[None], preparation.draw(1, rng))[0]
        return image
