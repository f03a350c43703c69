"""Compare the augmentation policies of `balanced_evidence`; the best one is its default.

    python bench/evidence_policies.py --fashion FOLDER --cifar100 FOLDER --seed 0 1 --out policies.json

FOLDER holds the published .gz files of Fashion-MNIST (Debian: dataset-fashion-mnist), or train/CLASS/*.png of
CIFAR-100.

A small residual network is trained on a long-tailed cut (imbalance 100) of the training set, with a cosine and with a
linear head. Under every policy, shifts are estimated on images it was trained on, and measured on images of the
training set that were held out. The test sets are never read. docs/evidence-policies.md has the results.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from energyalign.core.errors import UntrustedEstimateWarning
from energyalign.core.fitting import fit_shifts
from energyalign.pytorch.augment import POLICIES
from energyalign.pytorch.balanced import balanced_evidence
from energyalign.pytorch.collect import collect_evidence

IMBALANCE, PER_CLASS, BATCH = 100, 50, 128
CORRECTORS: dict[str, dict[str, Any]] = {
    "lse, per class": {"estimator": "lse", "clusters": "per-class"},
    "lse, Jenks 8": {"estimator": "lse", "clusters": 8},
    "lse, monotone": {"estimator": "lse", "clusters": "monotone"},
    "marginal, per class": {"estimator": "marginal", "clusters": "per-class"},
    "marginal, monotone": {"estimator": "marginal", "clusters": "monotone"},
    "auto": {},
}


class Split(NamedTuple):
    """Long-tailed training images, and a balanced part that is never trained on."""

    images: torch.Tensor
    labels: np.ndarray
    held_images: torch.Tensor
    held_labels: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.labels)


class Setting(NamedTuple):
    largest: int  # training images of the first class
    held_out: int  # images of every class to measure on
    epochs: tuple[int, ...]


SETTINGS = {"fashion": Setting(1000, 200, (15, 60)), "cifar100": Setting(450, 50, (30,))}


def read_fashion(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    pixels = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "train-labels-idx1-ubyte.gz").read_bytes())
    return np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 1, 28, 28), np.frombuffer(labels, np.uint8, offset=8)


def read_folders(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    classes = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    files = [(path, k) for k, name in enumerate(classes) for path in sorted((folder / "train" / name).iterdir())]
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path, _ in files]).transpose(0, 3, 1, 2)
    return pixels, np.array([k for _, k in files])


READERS = {"fashion": read_fashion, "cifar100": read_folders}


def cut(pixels: np.ndarray, labels: np.ndarray, setting: Setting, seed: int) -> Split:
    """Set aside the held-out part, and cut the rest to the exponential profile."""
    generator, n_classes = np.random.default_rng(seed), int(labels.max()) + 1
    kept, held = [], []
    for k in range(n_classes):
        members = generator.permutation(np.flatnonzero(labels == k))
        n = int(setting.largest * IMBALANCE ** (-k / (n_classes - 1)))
        held.append(members[: setting.held_out])
        kept.append(members[setting.held_out : setting.held_out + n])
    train, rest = np.concatenate(kept), np.concatenate(held)
    both = [torch.from_numpy(np.ascontiguousarray(pixels[part])) for part in (train, rest)]
    return Split(both[0], labels[train].astype(np.int64), both[1], labels[rest].astype(np.int64))


class Head(nn.Module):
    """A linear head, or the cosine between features and class weights, times 16."""

    def __init__(self, n_features: int, n_classes: int, kind: str) -> None:
        super().__init__()
        self.weight, self.kind = nn.Parameter(torch.randn(n_classes, n_features) / n_features**0.5), kind
        self.register_parameter("bias", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "linear":
            return F.linear(x, self.weight, self.bias)
        logits = 16.0 * F.linear(F.normalize(x), F.normalize(self.weight))
        return logits if self.bias is None else logits + self.bias


class Residual(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out))
        self.short = nn.Conv2d(n_in, n_out, 1, stride, bias=False) if (n_in, stride) != (n_out, 1) else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(self.first(x)) + self.short(x))


def network(n_channels: int, n_classes: int, head: str) -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(n_channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), Head(64, n_classes, head))


def normalize(images: torch.Tensor) -> torch.Tensor:
    return (images - 0.5) / 0.25


def train(split: Split, head: str, epochs: int, seed: int) -> nn.Module:
    """Train by SGD with momentum, a cosine schedule, padded crops and flips, as users would."""
    torch.manual_seed(seed)
    model = network(split.images.shape[1], len(split.counts), head)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    steps = -(-len(split.labels) // BATCH) * epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    labels, size = torch.from_numpy(split.labels), split.images.shape[-1]
    padded = F.pad(split.images, (4, 4, 4, 4))
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(BATCH):
            top, left = torch.randint(9, (2, len(batch), 1))
            rows, columns = top + torch.arange(size), left + torch.arange(size)
            columns = torch.where(torch.rand(len(batch), 1) < 0.5, columns, columns.flip(1))
            images = padded[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
            loss = F.cross_entropy(model(normalize(images.float() / 255.0)), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.inference_mode()
def logits_on(model: nn.Module, images: torch.Tensor) -> np.ndarray:
    return torch.cat([model(normalize(part.float() / 255.0)) for part in images.split(500)]).numpy()


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return 100.0 * float((logits.argmax(1) == labels).mean())


def measure(split: Split, model: nn.Module, seed: int) -> list[dict[str, Any]]:
    """Return a row for every policy and corrector, and for the raw model and logit adjustment without a policy."""
    held = logits_on(model, split.held_images)

    def row(policy: str | None, corrector: str, logits: np.ndarray, **more: Any) -> dict[str, Any]:
        return {"policy": policy, "corrector": corrector, "accuracy": accuracy(logits, split.held_labels), **more}

    memory = accuracy(logits_on(model, split.images), split.labels)
    rows = [row(None, "raw", held, training_accuracy=memory), row(None, "prior", held - np.log(split.counts))]
    for policy in POLICIES:
        loader = balanced_evidence(
            split.images, split.labels, PER_CLASS, augment=policy, normalize=normalize, seed=seed, batch_size=500
        )
        evidence, _ = collect_evidence(model, loader, counts=split.counts)
        for name, choice in CORRECTORS.items():
            shifts = fit_shifts(evidence, **choice)
            ess = shifts.effective_samples
            more = {"smallest_ess": None if ess is None else float(np.min(ess)), "estimator": shifts.estimator}
            rows.append(row(policy, name, held + shifts.values, **more))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SETTINGS:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UntrustedEstimateWarning)  # all are measured, trusted or not
    rows: list[dict[str, Any]] = []
    for name, setting in SETTINGS.items():
        folder = getattr(arguments, name)
        if folder is None:
            continue
        pixels, labels = READERS[name](folder)
        for seed in arguments.seed:
            split = cut(pixels, labels, setting, seed)
            for head in ("cosine", "linear"):
                for epochs in setting.epochs:
                    start = time.perf_counter()
                    model = train(split, head, epochs, seed)
                    where = {"dataset": name, "head": head, "epochs": epochs, "seed": seed}
                    rows += [where | row for row in measure(split, model, seed)]
                    arguments.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
                    print(where, f"{time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    main()
