"""Speed of decoding and augmenting photographs, compared with torchvision's pipeline and with decoding alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import simplejpeg
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from bench.line import Line, at_least, at_most
from bench.measure import alternate
from energyalign.cli.process import keep_freed_memory
from energyalign.experiments.data.file_images import DiskFiles, FileImages
from energyalign.experiments.data.loader import Loader
from energyalign.experiments.data.preparation import IMAGENET, IMAGENET_MEAN, IMAGENET_STD

DIFFERENT, TIMES = 25, 40  # number of files, and of reads of each per epoch: the page cache holds all of them
SIZE, BATCH, WORKERS = (500, 375), 64, 2
WORKLOAD = f"{DIFFERENT * TIMES:,} JPEGs of {SIZE[0]} × {SIZE[1]}, random resized crop to 224, flip, {WORKERS} workers"


def lines() -> Iterator[Line]:
    """Time an epoch, including the start of its workers."""
    keep_freed_memory()  # as the commands do
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{k}.jpg" for k in range(DIFFERENT)]
        for name in names:
            _save_photograph(Path(folder, name), rng)
        n = DIFFERENT * TIMES
        files = DiskFiles(Path(folder), tuple(names * TIMES))
        images = FileImages("photographs train", files, np.arange(n), np.zeros(n, dtype=np.int64), ("one",), IMAGENET)
        ours = Loader(images, batch_size=BATCH, seed=0, workers=WORKERS)
        paths = [Path(folder, name) for name in names * TIMES]
        seconds = alternate(
            {
                "ours": lambda: _exhaust(ours.epoch(1)),
                "script": lambda: _exhaust(DataLoader(_Augmented(paths), BATCH, num_workers=WORKERS)),
                "decoding": lambda: _exhaust(DataLoader(_Decoded(paths), BATCH, num_workers=WORKERS)),
            }
        )
    yield Line.of(
        "photographs", WORKLOAD, "torchvision v2 on Pillow's images, DataLoader", at_least(1.3),
        ours=seconds["ours"], theirs=seconds["script"],
    )  # fmt: skip
    yield Line.of(
        "photographs", WORKLOAD, "decoding alone, by simplejpeg in the same workers", at_most(1.15),
        ours=seconds["ours"], theirs=seconds["decoding"], limit="Photographs", floor=2.0,
    )  # fmt: skip


def _save_photograph(path: Path, rng: np.random.Generator) -> None:
    """Save a noise image that is stronger at larger scales, like a photograph; its file has about 100 KB."""
    pixels = rng.normal(scale=60, size=(SIZE[1], SIZE[0], 3))
    for side in (4, 8, 16, 32, 64, 128):
        coarse = rng.normal(size=(SIZE[1] // side + 2, SIZE[0] // side + 2, 3)).astype(np.float32)
        smooth = [Image.fromarray(coarse[..., c]).resize(SIZE, Image.Resampling.BICUBIC) for c in range(3)]
        pixels += side**0.8 * np.stack(smooth, axis=-1)
    pixels = (pixels - pixels.min()) / np.ptp(pixels) * 255
    Image.fromarray(pixels.astype(np.uint8)).save(path, quality=90)


def _exhaust(batches: Iterable[object]) -> None:
    for _ in batches:
        pass


class _Augmented(Dataset):  # type: ignore[type-arg]
    """Dataset with torchvision's augmentation, as in a tutorial."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._transform = v2.Compose(
            [
                v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ]
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._transform(Image.open(self._paths[index]).convert("RGB")), 0


class _Decoded(Dataset):  # type: ignore[type-arg]
    """Dataset that only decodes, and returns nothing."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> int:
        return len(simplejpeg.decode_jpeg(self._paths[index].read_bytes(), "RGB"))
