"""Cost of evidence and shifts relative to training, and of the paper's ten transformations relative to torchvision."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from torchvision.transforms import v2

from bench.cifar_training import BATCH, made_up_images, made_up_network, train
from bench.line import Line, at_least, at_most
from bench.measure import alternate
from bench.own_process import OwnProcess
from energyalign.cli.process import keep_freed_memory
from energyalign.core.shifts import Shifts
from energyalign.experiments.correctors import find_corrector
from energyalign.experiments.data.cut import cut_long_tail
from energyalign.experiments.engine.config import EvidencePlan
from energyalign.experiments.engine.trained import Trained
from energyalign.experiments.longtail.config import LongTailConfig
from energyalign.experiments.longtail.experiment import LongTailData, Setting
from energyalign.experiments.longtail.presets import PRESETS
from energyalign.experiments.train.reporter import Reporter
from energyalign.experiments.train.run_directory import RunDirectory
from energyalign.pytorch.balanced import balanced_evidence

BATCHES = 4  # of the 85 batches of an epoch; a whole epoch would take most of a minute


def lines() -> Iterator[Line]:
    """Time evidence and shifts, then the transformations alone."""
    keep_freed_memory()  # as the commands do
    yield from _beside_an_epoch()
    yield from _beside_torchvision()


def _beside_an_epoch() -> Iterator[Line]:
    """Time all of the evidence and a part of an epoch, whose batches take equally long."""
    config = LongTailConfig.from_preset(PRESETS["cifar100-lt-100"], seed=0)
    data = _cifar_100_lt(config)
    ea = find_corrector("ea")

    def ours() -> Shifts | None:
        return ea.correct(_after_training(config, data), EvidencePlan()).shifts

    with (
        tempfile.TemporaryDirectory() as folder,
        closing(OwnProcess(train, Path(folder), data.train, BATCHES)) as training,
    ):
        seconds = alternate({"ours": ours, "training": training.turn})
    part = len(data.train) / (BATCHES * BATCH)
    yield Line.of(
        "evidence + shifts", f"CIFAR-100-LT, imbalance 100, ResNet-32: {EvidencePlan().per_class} draws of each class",
        f"one training epoch of {len(data.train):,} images ({BATCHES} batches, times {part:.1f})", at_most(0.1),
        ours=seconds["ours"], theirs=[part * value for value in seconds["training"]],
        limit="Teacher and evidence", floor=0.2,
    )  # fmt: skip


def _beside_torchvision() -> Iterator[Line]:
    """Time `balanced_evidence` from stored images to batches, and torchvision's transformations of the same images."""
    n_classes, per_class = 100, 20
    images = made_up_images(n_classes * per_class).images
    labels = np.arange(len(images)) % n_classes
    seconds = alternate(
        {
            "ours": lambda: [*balanced_evidence(images, labels, per_class)],
            "by image": lambda: torch.stack([_two_by_torchvision(image) for image in images]),
            "by batch": lambda: [_two_by_torchvision(batch) for batch in images.split(256)],
        }
    )
    workload = f"{len(images):,} CIFAR-shaped images, two of the ten transformations each"
    yield Line.of(
        "evidence", workload, "torchvision v2, image by image", at_least(5), ours=seconds["ours"],
        theirs=seconds["by image"],
    )  # fmt: skip
    yield Line.of(
        "evidence", workload, "torchvision v2 by batches of 256, whose images all get the same two", at_least(2),
        ours=seconds["ours"], theirs=seconds["by batch"], limit="Teacher and evidence", floor=0.15,
    )  # fmt: skip


_TORCHVISION = (
    v2.RandomHorizontalFlip(p=1.0), v2.RandomVerticalFlip(p=1.0), v2.RandomRotation(10), v2.RandomAffine(10),
    v2.RandomPerspective(0.25, p=1.0), v2.ColorJitter(brightness=(0.0, 5.0)), v2.ColorJitter(contrast=(0.0, 5.0)),
    v2.ColorJitter(saturation=(0.0, 5.0)), v2.ColorJitter(hue=(0.0, 0.5)), v2.RandomErasing(p=1.0),
)  # fmt: skip


def _two_by_torchvision(pixels: torch.Tensor) -> torch.Tensor:
    floats = pixels.float() / 255
    for index in torch.randperm(len(_TORCHVISION))[:2].tolist():
        floats = _TORCHVISION[index](floats)
    return floats


def _cifar_100_lt(config: LongTailConfig) -> LongTailData:
    """Cut CIFAR-100-LT from 500 images of each class, with few test images because they are not used."""
    whole = made_up_images(50_000)
    whole = replace(whole, labels=np.arange(50_000) % whole.n_classes)
    test = whole.subset(range(whole.n_classes))
    manifest = cut_long_tail(
        whole, dataset=config.dataset, profile=config.profile, imbalance=config.imbalance, seed=0, test=test
    )
    return LongTailData(manifest.select(whole), test, manifest)


def _after_training(config: LongTailConfig, data: LongTailData) -> Trained:
    """Return a run that has just been trained, without cached outputs."""
    counts = torch.tensor(data.counts, dtype=torch.float32)
    setting = Setting(config, data.train, counts, 0, torch.device("cpu"))
    fabric, run = Fabric(accelerator="cpu", devices=1), RunDirectory(Path("nowhere"))
    return Trained(
        network=made_up_network().eval(), ground=setting, evidence_seed=config.seed, run=run, fabric=fabric,
        reporter=Reporter(), network_sha256="", sizes=(data.train.n_classes,),
    )  # fmt: skip
