"""Whether an aligned network is as fast as the raw one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torchvision.models import resnet50

from bench.cifar_training import CLASSES, made_up_network
from bench.line import Line, at_most
from bench.measure import alternate
from energyalign.pytorch import align

SIDES = {"ResNet-32": 32, "ResNet-50": 64}
ROUNDS = {("ResNet-32", 1): 401, ("ResNet-32", 128): 31, ("ResNet-50", 1): 151, ("ResNet-50", 128): 11}


def lines() -> Iterator[Line]:
    """Of both networks, one image at a time and many."""
    torch.manual_seed(0)
    networks = {"ResNet-32": made_up_network(), "ResNet-50": resnet50(weights=None)}
    for name, raw in networks.items():
        aligned, side = _aligned(raw.eval(), SIDES[name]), SIDES[name]
        for n_images in (1, 128):
            images = torch.randn(n_images, 3, side, side)
            seconds = alternate(
                {"ours": _asked(aligned, images), "raw": _asked(raw, images)}, rounds=ROUNDS[name, n_images]
            )
            yield Line.of(
                "aligned inference", f"{name}, {side} x {side} pixels, batch {n_images}", "the raw model",
                at_most(1.01), ours=seconds["ours"], theirs=seconds["raw"],
            )  # fmt: skip


def _aligned(raw: torch.nn.Module, side: int) -> torch.nn.Module:
    n_classes = CLASSES if side == SIDES["ResNet-32"] else 1000
    batch = torch.randn(8, 3, side, side), torch.arange(8)
    return align(raw, [batch], counts=np.arange(n_classes, 0, -1), estimator="prior")


def _asked(network: torch.nn.Module, images: torch.Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.inference_mode():
            return network(images)

    return run
