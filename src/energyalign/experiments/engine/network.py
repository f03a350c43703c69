"""The network of a config, made for the images that it will see."""

from __future__ import annotations

from typing import Any

import torch

from energyalign.core.errors import EnergyAlignError
from energyalign.experiments.data.images import ImageSet
from energyalign.experiments.data.loader import evaluation_batches
from energyalign.experiments.data.preparation import LargePreparation
from energyalign.experiments.engine.config import RunConfig
from energyalign.experiments.nets.network import Network, make_network
from energyalign.experiments.nets.registry import is_of_library


def network_for(config: RunConfig, images: ImageSet, n_classes: int) -> Network:
    """Untrained but for the weights that the config names."""
    return make_network(
        config.backbone, n_classes, head=config.head, scale=config.scale, learned_scale=config.learned_scale,
        in_channels=int(images.read(0).shape[0]), weights=config.weights, freeze=config.freeze,
        **(looks_of(images) if is_of_library(config.backbone) else {}),
    )  # fmt: skip


def looks_of(images: ImageSet) -> dict[str, Any]:
    """Size and normalisation of images as a network sees them."""
    prepare = images.preparation
    size = (prepare.side,) * 2 if isinstance(prepare, LargePreparation) else tuple(images.read(0).shape[1:])
    return {"size": size, "mean": prepare.normalise.mean, "std": prepare.normalise.std}


def refuse_negative_features(network: Network, images: ImageSet, why: str) -> None:
    """Refuse a network whose features of some images are negative; a network that ends in a ReLU has none."""
    few = next(evaluation_batches(images, batch_size=8)).images
    with torch.no_grad():
        lowest = float(network.eval().features(few).min())
    if lowest < 0:
        raise EnergyAlignError(
            f"{why}, and those of this backbone are not (the lowest is {lowest:.2g}): choose one that ends in a ReLU, "
            "such as torchvision:resnet18, or mlp on features."
        )
