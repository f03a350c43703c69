"""Speed of an aligned network compared with the raw one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torchvision.models import resnet50

from bench.cifar_training import CLASSES, made_up_network
from bench.line import Line, at_most
from bench.measure import alternate
from energyalign.pytorch import align

SIDES = {"ResNet-32": 32, "ResNet-50": 64}
PAIRS = 4  # two copies of the same raw network were measured to differ by up to three per cent
# Rounds for each pair of copies.
ROUNDS = {("ResNet-32", 1): 101, ("ResNet-32", 128): 9, ("ResNet-50", 1): 41, ("ResNet-50", 128): 6}


def lines() -> Iterator[Line]:
    """Measure both networks, with one image at a time and with many."""
    torch.manual_seed(0)
    networks = {"ResNet-32": made_up_network(), "ResNet-50": resnet50(weights=None)}
    for name, network in networks.items():
        side = SIDES[name]
        pairs = [_pair(network.eval(), side, raw_first=number % 2 == 0) for number in range(PAIRS)]
        for n_images in (1, 128):
            images = torch.randn(n_images, 3, side, side)
            seconds: dict[str, list[float]] = {"ours": [], "raw": []}
            for raw, aligned in pairs:
                works = {"ours": _asked(aligned, images), "raw": _asked(raw, images)}
                for which, taken in alternate(works, rounds=ROUNDS[name, n_images]).items():
                    seconds[which] += taken
            yield Line.of(
                "aligned inference", f"{name}, {side} x {side} pixels, batch {n_images}, {PAIRS} copies of each",
                "the raw model", at_most(1.01), ours=seconds["ours"], theirs=seconds["raw"],
            )  # fmt: skip


def _pair(network: torch.nn.Module, side: int, *, raw_first: bool) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return a raw and an aligned copy."""
    if raw_first:
        return copy.deepcopy(network), _aligned(network, side)
    aligned = _aligned(network, side)
    return copy.deepcopy(network), aligned


def _aligned(raw: torch.nn.Module, side: int) -> torch.nn.Module:
    n_classes = CLASSES if side == SIDES["ResNet-32"] else 1000
    batch = torch.randn(8, 3, side, side), torch.arange(8)
    return align(raw, [batch], counts=np.arange(n_classes, 0, -1), estimator="prior")


def _asked(network: torch.nn.Module, images: torch.Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.inference_mode():
            return network(images)

    return run
